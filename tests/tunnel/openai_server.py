"""An OpenAI server in a thread: the stand-in for vLLM as the rehearsal's machine runs it, without the container."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from rehearsal.machine.vllm.server import Engine, Server, handler

MODEL = "google/gemma-4-E2B-it"


def for_every_origin(base: type[BaseHTTPRequestHandler]) -> type[BaseHTTPRequestHandler]:
    """What vLLM answers to pages unless told otherwise: `--allowed-origins`, `-methods` and `-headers` are all `["*"]`, which its
    middleware (Starlette's) turns into these headers.
    """

    class Shared(base):  # type: ignore[misc, valid-type]
        def do_OPTIONS(self) -> None:
            self.send_response(200)
            self.send_header("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
            self.send_header("Access-Control-Allow-Headers", self.headers.get("Access-Control-Request-Headers", ""))
            self.send_header("Access-Control-Max-Age", "600")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")

        def end_headers(self) -> None:
            if self.headers.get("Origin"):
                self.send_header("Access-Control-Allow-Origin", "*")
            super().end_headers()

    return Shared


@contextmanager
def openai_server() -> Iterator[int]:
    """Its port, while the block lasts."""
    said = {"served_model_name": [MODEL], "max_model_len": 8192, "language_model_only": True, "disable_uvicorn_access_log": True}
    args = argparse.Namespace(model=MODEL, enable_auto_tool_choice=False, tool_call_parser=None, **said)
    server = Server(("127.0.0.1", 0), for_every_origin(handler(Engine(args, "stand-in"))))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
