"""A small OpenAI-compatible server on loopback that repeats what it is asked to repeat, or does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

METRICS = """# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="m"} 1200.0
vllm:generation_tokens_total{model_name="m"} 300.0
vllm:prompt_tokens_created{model_name="m"} 1.7e9
"""


@dataclass
class OpenAiServer:
    """What it answers. `chat_status` other than 200: a server that is healthy and cannot chat."""

    chat_status: int = 200
    says: str | None = None
    thinks: bool = False
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(server: OpenAiServer) -> Iterator[OpenAiServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                return self.reply(200, METRICS.encode(), "text/plain")
            known = {"/v1/models": {"data": [{"id": "m"}]}, "/health": {}}
            self.reply(200 if self.path in known else 404, json.dumps(known.get(self.path, {})).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.chat_status != 200:
                return self.reply(server.chat_status, b'{"message": "shared memory 81920 needed, 65536 available"}')
            text = server.says if server.says is not None else body["messages"][0]["content"].rpartition(" ")[2]
            message = {"content": None if server.thinks else text, "reasoning_content": text if server.thinks else None}
            answer = {"choices": [{"message": message}], "usage": {"completion_tokens": 7}}
            self.reply(200, json.dumps(answer).encode())

        def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.port = http.server_address[1]
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
