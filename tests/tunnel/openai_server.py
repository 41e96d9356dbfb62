"""An OpenAI server in a thread: the stand-in for vLLM as the rehearsal's machine runs it, without the container."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rehearsal.machine.vllm.server import Engine, Server, handler

MODEL = "google/gemma-4-E2B-it"


@contextmanager
def openai_server() -> Iterator[int]:
    """Its port, while the block lasts."""
    said = {"served_model_name": [MODEL], "max_model_len": 8192, "language_model_only": True, "disable_uvicorn_access_log": True}
    args = argparse.Namespace(model=MODEL, enable_auto_tool_choice=False, tool_call_parser=None, **said)
    server = Server(("127.0.0.1", 0), handler(Engine(args, "stand-in")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
