"""A streamed chat that takes a while, over a connection that is open already: what a reclaim must let end."""

from __future__ import annotations

import json
import socket
import threading
from http.client import HTTPConnection, HTTPException

WORDS = 5000  # at the stand-in's 2 ms a token: some ten seconds, twice what the watcher needs to see a notice
LONGEST_S = 60.0
END = b"data: [DONE]"


class LongRequest:
    """Sent when it is made. `begun` is set with the first byte of the answer, `over` at its end; `finished`: it came whole."""

    def __init__(self, channel: socket.socket, model: str, words: int = WORDS) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.finished = False
        self._channel = channel
        prompt = " ".join(f"w{number:06d}" for number in range(words))
        self._body = json.dumps(
            {"model": model, "stream": True, "max_tokens": 2 * words, "messages": [{"role": "user", "content": prompt}]}
        )
        threading.Thread(target=self._run, name="long request", daemon=True).start()

    def _run(self) -> None:
        try:
            self._channel.settimeout(LONGEST_S)
            connection = HTTPConnection("localhost")
            connection.sock = self._channel
            connection.request("POST", "/v1/chat/completions", self._body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            last = b""
            while line := answer.readline():
                self.begun.set()
                last = line.strip() or last
            self.finished = answer.status == 200 and last == END
        except (OSError, HTTPException):
            self.finished = False
        finally:
            self._channel.close()
            self.begun.set()
            self.over.set()
