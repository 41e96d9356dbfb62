"""`vllm serve MODEL [options]`, the stand-in: checks its arguments as vLLM does, then answers the OpenAI API on its port."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rehearsal.machine.vllm import answers, arguments, start
from rehearsal.machine.vllm.metrics import Metrics

DEFAULT_MAX_TOKENS = 512
SECONDS_A_TOKEN = 0.002
MULTIMODAL = {"image_url", "input_audio", "video_url", "audio_url"}


class BadRequest(Exception):
    """An answer in OpenAI's error shape."""

    def __init__(self, text: str, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(text)
        self.status = status
        self.document = {"error": {"message": text, "type": kind, "param": None, "code": status}}


class Engine:
    """One served model: names, limits, counters. No I/O."""

    def __init__(self, args: argparse.Namespace, version: str) -> None:
        self.args = args
        self.version = version
        self.names: list[str] = args.served_model_name or [args.model]
        self.max_model_len = args.max_model_len if isinstance(args.max_model_len, int) else 131072
        self.metrics = Metrics(self.names[0])
        self.created = int(time.time())

    def models(self) -> Mapping[str, object]:
        """What /v1/models shows."""
        entry = {"object": "model", "created": self.created, "owned_by": "vllm", "root": self.args.model, "parent": None}
        return {"object": "list", "data": [{"id": name, **entry, "max_model_len": self.max_model_len} for name in self.names]}

    def check(self, body: Mapping[str, Any]) -> None:
        """Raises `BadRequest` as vLLM does: wrong model, parts the server was told not to take, tools it cannot call."""
        if body.get("model") not in (None, *self.names):
            raise BadRequest(f"The model `{body['model']}` does not exist.", 404, "NotFoundError")
        if "messages" in body:
            if not isinstance(body["messages"], list) or not body["messages"]:
                raise BadRequest("List should have at least 1 item after validation")
            used = answers.parts(body["messages"]) & MULTIMODAL
            if used and self.args.language_model_only:
                raise BadRequest(f"At most 0 {sorted(used)[0].split('_')[0]}(s) may be provided in one prompt.")
        automatic = body.get("tools") and body.get("tool_choice", "auto") == "auto"
        if automatic and not (self.args.enable_auto_tool_choice and self.args.tool_call_parser):
            raise BadRequest('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')

    def generate(self, body: Mapping[str, Any], fault: str) -> tuple[list[str], int, str]:
        """Tokens of the answer, number of prompt tokens, finish reason. Raises `BadRequest` for a prompt that is too long."""
        if "messages" in body:
            prompt = answers.text_of(body["messages"][-1])
            length = sum(len(answers.tokens(answers.text_of(message))) + 4 for message in body["messages"])
        else:
            prompt = body["prompt"] if isinstance(body.get("prompt"), str) else " ".join(map(str, body.get("prompt") or []))
            length = len(answers.tokens(prompt)) + 1
        if length > self.max_model_len:
            raise BadRequest(
                f"This model's maximum context length is {self.max_model_len} tokens. "
                f"However, your request has {length} input tokens."
            )
        said = answers.answer(prompt, fault)
        wanted = body.get("response_format") or {}
        if wanted.get("type") in ("json_object", "json_schema"):
            said = answers.as_json((wanted.get("json_schema") or {}).get("schema") or {}, said)
        made = answers.tokens(said)
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_MAX_TOKENS
        return made[:limit], length, "length" if len(made) > limit else "stop"


def handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    """The HTTP side of an engine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            pages: dict[str, Mapping[str, object] | None] = {
                "/health": None, "/ping": None, "/v1/models": engine.models(), "/version": {"version": engine.version},
                "/load": {"server_load": engine.metrics.running},
            }  # fmt: skip
            path = self.path.split("?")[0]
            if path == "/metrics":
                self._send(200, engine.metrics.text().encode(), "text/plain; version=0.0.4")
            elif path in pages:
                page = pages[path]
                self._send(200, b"" if page is None else json.dumps(page).encode())
            else:
                self._send(404, b'{"detail":"Not Found"}')

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length") or 0)
                if self.path == "/ping":  # SageMaker's two routes are vLLM's own: entrypoints/serve/sagemaker/api_router.py
                    self.rfile.read(length)
                    self._send(200, b"")
                    return
                body = json.loads(self.rfile.read(length) or b"{}")
                if not isinstance(body, dict):
                    raise BadRequest("the body is not an object")
                self._post(self.path.split("?")[0], body)
            except BadRequest as error:
                self._send(error.status, json.dumps(error.document).encode())
            except ValueError as error:
                self._send(400, json.dumps(BadRequest(f"JSON decode error: {error}").document).encode())
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _post(self, path: str, body: Mapping[str, Any]) -> None:
            if path == "/tokenize":
                text = str(body.get("prompt") or " ".join(answers.text_of(m) for m in body.get("messages", [])))
                made = answers.tokens(text)
                count = {"count": len(made), "max_model_len": engine.max_model_len, "tokens": [sum(t.encode()) for t in made]}
                self._send(200, json.dumps({**count, "token_strs": None}).encode())
                return
            if path == "/invocations":
                path = "/v1/chat/completions" if "messages" in body else "/v1/completions" if "prompt" in body else ""
                if not path:
                    raise BadRequest("Cannot find suitable handler for request. Expected one of: messages, prompt")
            if path not in ("/v1/chat/completions", "/v1/completions"):
                self._send(404, b'{"detail":"Not Found"}')
                return
            engine.check(body)
            fault = start.fault()
            if fault == "crash-at-chat" and "chat" in path:
                start.log("core.py:700", "EngineCore encountered a fatal error.", "ERROR")
                os._exit(1)
            chat = "chat" in path
            events = _events(engine, body, fault, chat=chat)
            if body.get("stream"):
                self._stream(events)
            else:
                self._send(200, json.dumps(_whole(list(events), chat=chat)).encode())

        def _stream(self, events: Iterator[dict[str, Any]]) -> None:
            first = next(events)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._chunk(_data(first))
            for event in events:
                self._chunk(_data(event))
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: ARG002
            if not engine.args.__dict__.get("disable_uvicorn_access_log"):
                client = f"{self.client_address[0]}:{self.client_address[1]}"
                print(f'INFO:     {client} - "{self.command} {self.path} HTTP/1.1" {args[1] if len(args) > 1 else ""}', flush=True)

    return Handler


def _events(engine: Engine, body: Mapping[str, Any], fault: str, *, chat: bool) -> Iterator[dict[str, Any]]:
    """The chunks of one answer, a token each, with the time between them; the last has the reason and the usage."""
    began = time.monotonic()
    made, length, reason = engine.generate(body, fault)
    identity = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
        "object": "chat.completion.chunk" if chat else "text_completion",
        "created": int(time.time()),
        "model": body.get("model") or engine.names[0],
    }

    def event(text: str, finish: str | None, **delta: str) -> dict[str, Any]:
        said = {"delta": {**delta, "content": text}} if chat else {"text": text}
        return {**identity, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": finish}]}

    metrics = engine.metrics
    with metrics.lock:
        metrics.running += 1
    try:
        if chat:
            yield event("", None, role="assistant")
        for number, token in enumerate(made):
            time.sleep(SECONDS_A_TOKEN)
            with metrics.lock:
                (metrics.between_tokens if number else metrics.first_token).observe(
                    SECONDS_A_TOKEN if number else time.monotonic() - began
                )
            yield event(token, None)
        usage = {"prompt_tokens": length, "completion_tokens": len(made), "total_tokens": length + len(made)}
        last = event("", reason)
        if not body.get("stream") or (body.get("stream_options") or {}).get("include_usage"):
            yield last
            yield {**identity, "choices": [], "usage": usage}
        else:
            yield last
        with metrics.lock:
            metrics.prompt_tokens += length
            metrics.generation_tokens += len(made)
            metrics.finished[reason] += 1
            metrics.whole.observe(time.monotonic() - began)
    finally:
        with metrics.lock:
            metrics.running -= 1


def _whole(events: list[dict[str, Any]], *, chat: bool) -> dict[str, Any]:
    """One document from the chunks."""
    choices = [event["choices"][0] for event in events if event["choices"]]
    text = "".join(choice["delta"]["content"] if chat else choice["text"] for choice in choices)
    said = {"message": {"role": "assistant", "content": text, "tool_calls": []}} if chat else {"text": text}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": choices[-1]["finish_reason"]}
    return {
        **{name: events[0][name] for name in ("id", "created", "model")},
        "object": "chat.completion" if chat else "text_completion",
        "choices": [choice],
        "usage": events[-1]["usage"],
    }


def _data(event: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


class Server(ThreadingHTTPServer):
    """Listens on a socket that was bound before the model loaded."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


def main(words: list[str]) -> int:
    """Serve until SIGTERM. Exit 2 for bad arguments, 1 when it cannot start, 0 when told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    known = arguments.load(Path(os.environ.get("STAND_IN_OPTIONS", "/opt/vllm/options.json")))
    if not words or words[0] != "serve":
        print("usage: vllm [-h] [-v] {serve} ...\nvllm: error: the stand-in only serves", file=sys.stderr)
        return 2
    args = arguments.parse(words[1:], known["serve_options"])
    if not args.model:
        args.model = "Qwen/Qwen3-0.6B"  # vLLM's own default
    version = os.environ.get("STAND_IN_VERSION", str(known["vllm"]))
    for name in arguments.unknown_environment(known["environment_variables"]):
        start.log("envs.py:1742", f"Unknown vLLM environment variable detected: {name}", "WARNING")
    start.log("api_server.py:1351", f"vLLM API server version {version} (stand-in)")
    given = {name: value for name, value in vars(args).items() if value is not None}
    start.log("utils.py:233", f"non-default args: {given}")
    channel = start.bind(args)
    start.load(args)
    engine = Engine(args, version)
    server = Server(("", 0), handler(engine), bind_and_activate=False)
    server.socket.close()
    server.socket = channel
    server.server_activate()
    start.log("api_server.py:1425", f"Starting vLLM API server 0 on http://{args.host or '0.0.0.0'}:{args.port or 8000}")
    print(f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.", flush=True)
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
