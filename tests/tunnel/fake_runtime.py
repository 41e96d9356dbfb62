"""SageMaker's runtime on loopback for the tests: signed requests only, answers in AWS's event stream encoding."""

from __future__ import annotations

import json
import struct
import time
import uuid
from binascii import crc32
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx


def message(payload: bytes, **headers: str) -> bytes:
    """One message of `application/vnd.amazon.eventstream`; header names are written with `_` for `-`."""
    head = b""
    for name, value in headers.items():
        key = (":" + name.replace("_", "-")).encode()
        head += bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    body = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return body + struct.pack(">I", crc32(body))


def part(payload: bytes) -> bytes:
    return message(payload, message_type="event", event_type="PayloadPart", content_type="application/octet-stream")


class FakeRuntime:
    """The endpoint's name chooses what happens: `ok`, `slow`, `cut`, `streamerror`, or an AWS error code in `error-CODE-STATUS`.

    `real` asks the OpenAI server on port `behind`, as the container of an endpoint does.
    """

    def __init__(self, behind: int = 0, port: int = 0) -> None:
        self.behind, self._port = behind, port

    def __enter__(self) -> FakeRuntime:
        outer = self
        self.seen: list[dict[str, object]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # each part leaves when it is written

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(raw)
                endpoint = self.path.split("/")[2]
                outer.seen.append({"path": self.path, "body": body, "headers": dict(self.headers)})
                if not self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
                    return self.refuse("MissingAuthenticationTokenException", 403)
                if endpoint.startswith("error-"):
                    _, code, status = endpoint.split("-")
                    return self.refuse(code, int(status))
                self.send_response(200)
                self.send_header("x-amzn-RequestId", str(uuid.UUID(int=len(outer.seen))))
                self.send_header("Content-Type", "application/vnd.amazon.eventstream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for data in outer.answer(endpoint, body):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def refuse(self, code: str, status: int) -> None:
                more = {}
                if code == "ModelError":
                    said = {"error": {"message": "max_tokens is too large", "type": "BadRequestError", "param": None, "code": 400}}
                    more = {"OriginalStatusCode": 400, "OriginalMessage": json.dumps(said)}
                data = json.dumps({"Message": f"{code}: Endpoint not found" if status == 400 else code, **more}).encode()
                self.send_response(status)
                self.send_header("x-amzn-ErrorType", code)
                self.send_header("x-amzn-RequestId", "refused-1")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, endpoint: str, body: dict) -> Iterator[bytes]:
        if endpoint == "real":
            yield from self.real(body)
            return
        words = ["The ", "nonce ", "is ", "42."]
        whole = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in self.chunks(body, words)) + b"data: [DONE]\n\n"
        if endpoint == "json":
            yield part(json.dumps({"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}).encode())
            return
        if endpoint == "cut":
            yield part(whole[: len(whole) // 2])
            return
        if endpoint == "streamerror":
            yield part(whole[: len(whole) // 2])
            yield message(
                json.dumps({"Message": "the model died"}).encode(), message_type="exception", exception_type="ModelStreamError"
            )
            return
        for start in range(0, len(whole), 37):  # cut anywhere
            if endpoint == "slow":
                time.sleep(0.01)
            yield part(whole[start : start + 37])

    def real(self, body: dict) -> Iterator[bytes]:
        """The server's own answer, as it comes; its refusal is the payload, as vLLM's container has it."""
        path = "chat/completions" if "messages" in body else "completions"
        with httpx.stream("POST", f"http://127.0.0.1:{self.behind}/v1/{path}", json=body, timeout=30) as answer:
            for data in answer.iter_raw():
                yield part(data)

    def chunks(self, body: dict, words: list[str]) -> Iterator[dict]:
        chat = "messages" in body
        base = {"id": "c-1", "object": "chat.completion.chunk" if chat else "text_completion", "created": 7, "model": body["model"]}
        if chat:
            yield {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
        for word in words:
            said = {"delta": {"content": word}} if chat else {"text": word}
            yield {**base, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": None}]}
        if body.get("tools"):
            pieces = [
                {"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": ""}},
                {"index": 0, "function": {"arguments": '{"a"'}},
                {"index": 0, "function": {"arguments": ": 1}"}},
            ]
            for call in pieces:
                yield {**base, "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
        end = {"delta": {}} if chat else {"text": ""}
        yield {**base, "choices": [{"index": 0, **end, "finish_reason": "stop", "stop_reason": None}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield {**base, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
