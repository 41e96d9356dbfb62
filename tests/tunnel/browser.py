"""What a browser sends for a page of another origin that reads an event stream, header for header; not a browser.

A page at `http://localhost:3000` calls `fetch` with a JSON body: the browser asks first (a preflight), keeps the answer from the
page where the server does not let it have it, and sends all of it on one kept-alive connection. The rules are those of the Fetch
standard ("CORS protocol") and of the HTML standard ("event stream"); the headers are Chrome's, in its order.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.tunnel.clients import LIMIT_S, asked

ORIGIN = "http://localhost:3000"
_AGENT = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
}
_FETCH = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Referer": f"{ORIGIN}/"}
_LAST = {"Accept-Encoding": "gzip, deflate, br, zstd", "Accept-Language": "en-US,en;q=0.9"}
_CLIENT_HINTS = {"sec-ch-ua-platform": '"Linux"', "sec-ch-ua-mobile": "?0"}


class KeptFromThePage(Exception):
    """The server did not let the page's origin do that: `fetch` fails with a TypeError."""


@dataclass
class Page:
    """One page with one connection to the server."""

    base_url: str
    events: list[str] = field(default_factory=list)
    type: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        self.host, self.path = parts.netloc, parts.path
        self.connection = http.client.HTTPConnection(self.host, timeout=LIMIT_S)

    def get(self, path: str) -> Any:
        """`fetch(path)`: no preflight."""
        answer = self._send("GET", path, {**_CLIENT_HINTS, **_AGENT, "Accept": "*/*", "Origin": ORIGIN, **_FETCH, **_LAST})
        return json.loads(answer.read())

    def stream(self, path: str, body: object) -> None:
        """`fetch(path, {method: "POST", headers: {"Content-Type": "application/json", Accept: "text/event-stream"}, body})`."""
        wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        asked_first = self._send("OPTIONS", path, {"Accept": "*/*", **wanted, "Origin": ORIGIN, **_AGENT, **_FETCH, **_LAST})
        asked_first.read()
        allowed = {word.strip().lower() for word in (asked_first.getheader("Access-Control-Allow-Headers") or "").split(",")}
        methods = {word.strip() for word in (asked_first.getheader("Access-Control-Allow-Methods") or "").split(",")}
        if not 200 <= asked_first.status < 300 or not {"content-type", "*"} & allowed or not {"POST", "*"} & methods:
            raise KeptFromThePage(f"the preflight: {asked_first.status} {dict(asked_first.getheaders())}")
        headers = {**_CLIENT_HINTS, **_AGENT, "Accept": "text/event-stream", "Content-Type": "application/json"}
        answer = self._send("POST", path, {**headers, "Origin": ORIGIN, **_FETCH, **_LAST}, json.dumps(body).encode())
        self.type = answer.getheader("Content-Type") or ""
        self._read(answer)

    def _send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> http.client.HTTPResponse:
        self.connection.putrequest(method, f"{self.path}{path}", skip_host=True, skip_accept_encoding=True)
        length = {"Content-Length": str(len(body))} if method == "POST" else {}
        for name, value in {"Host": self.host, "Connection": "keep-alive", **length, **headers}.items():
            self.connection.putheader(name, value)
        self.connection.endheaders(body or None)
        answer = self.connection.getresponse()
        if answer.getheader("Access-Control-Allow-Origin") not in ("*", ORIGIN):
            raise KeptFromThePage(f"{method} {path}: {answer.status} {dict(answer.getheaders())}")
        return answer

    def _read(self, answer: http.client.HTTPResponse) -> None:
        """Lines end in CR, LF or CRLF; `data` is joined by newlines, an empty line ends an event, an unfinished one is dropped."""
        rest, data = "", []
        while part := answer.read1(1):  # byte by byte: cut anywhere, also within a character's bytes were it not ASCII
            rest += part.decode()
            while found := re.search(r"\r\n|\r(?!$)|\n", rest):
                line, rest = rest[: found.start()], rest[found.end() :]
                if line.startswith("data:"):
                    data.append(line.removeprefix("data:").removeprefix(" "))
                elif not line and data:
                    self.events.append("\n".join(data))
                    data = []


def reads_an_event_stream(base_url: str) -> None:
    """The page gets the models, then its nonce in more than one event, and `[DONE]` as the last."""
    page, nonce = Page(base_url), secrets.token_hex(6)
    model = page.get("/models")["data"][0]["id"]
    page.stream("/chat/completions", {"model": model, "messages": asked(nonce), "stream": True})
    assert page.type.startswith("text/event-stream")
    assert len(page.events) > 2 and page.events[-1] == "[DONE]"
    said = [json.loads(event)["choices"] for event in page.events[:-1]]
    assert nonce in "".join(choices[0]["delta"].get("content") or "" for choices in said if choices)
    page.connection.close()
