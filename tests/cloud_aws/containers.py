"""A container that is a thread of this process: the same port, the same two paths, and it can be told to die."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rehearsal.sagemaker.contracts import CannotPull, CannotStart, ContainerSpec, Manifest


class Container:
    """`dies`: it exits as soon as it is started, again and again. `slow_s`: how long each answer takes."""

    def __init__(self, spec: ContainerSpec, cluster: Cluster) -> None:
        self.spec, self.cluster = spec, cluster
        self.lines: list[str] = []
        self.answered = 0
        self.stopped = False
        self._died = 0
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        if self.cluster.cannot_pull:
            raise CannotPull("manifest unknown")
        if self.cluster.cannot_start:
            raise CannotStart("OCI runtime create failed")
        self.lines.append("INFO starting")
        if self.cluster.dies:
            self.lines.append("torch.OutOfMemoryError: CUDA out of memory.")
            return
        if self.cluster.hangs:
            return
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def logs(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def restarts(self) -> int:
        if self.cluster.dies and not self.stopped and self._died < 5:
            self._died += 1
            self.lines += ["INFO starting", "torch.OutOfMemoryError: CUDA out of memory."]
        return self._died

    def connect(self, port: int = 8080, timeout: float = 5.0) -> int:
        assert port == 8080
        if self._server is None:
            raise ConnectionRefusedError
        return socket.create_connection(self._server.server_address[:2], timeout).detach()

    def stop(self) -> None:
        self.stopped = True
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


def _handler(container: Container) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._say(200 if self.path == "/ping" else 404, b"")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(container.cluster.slow_s)
            container.answered += 1
            if body.get("bad"):
                return self._say(400, b'{"error":{"message":"bad"}}')
            if not body.get("stream"):
                return self._say(200, json.dumps({"from": container.spec.name, "was": body}).encode())
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in _said(body):
                piece = f"data: {part}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
                time.sleep(0.02)
            if body.get("cut"):
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _said(body: Mapping[str, Any]) -> Sequence[str]:
    """The parts of a streamed answer: to a chat its last message again, else three numbers."""
    if "messages" not in body:
        return ("0", "1", "2")
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body.get("model", "m")}
    delta = {"role": "assistant", "content": body["messages"][-1]["content"]}
    return (
        json.dumps({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        json.dumps({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        "[DONE]",
    )


class Cluster:
    """Makes containers, and keeps them."""

    def __init__(self) -> None:
        self.made: list[Container] = []
        self.dies = self.hangs = self.cannot_pull = self.cannot_start = False
        self.slow_s = 0.0

    def __call__(self, spec: ContainerSpec) -> Container:
        self.made.append(Container(spec, self))
        return self.made[-1]

    def running(self) -> list[Container]:
        return [c for c in self.made if not c.stopped]


class Shelf:
    """A registry without a server."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], list[Manifest]] = {}
        self.blobs: dict[str, bytes] = {}

    def put(
        self,
        account: str,
        repository: str,
        *tags: str,
        environment: Mapping[str, str] = {},
        media_type: str = "application/vnd.docker.distribution.manifest.v2+json",
    ) -> str:
        """An image with these variables; its digest."""
        from hashlib import sha256

        config = json.dumps({"config": {"Env": [f"{k}={v}" for k, v in environment.items()]}, "for": [repository, *tags]}).encode()
        name = "sha256:" + sha256(config).hexdigest()
        self.blobs[name] = config
        body = json.dumps({"schemaVersion": 2, "mediaType": media_type, "config": {"digest": name}, "layers": []}).encode()
        digest = "sha256:" + sha256(body).hexdigest()
        self.held.setdefault((account, repository), []).append(Manifest(digest, media_type, body, tags, 1.0, 8_000_000_000))
        return digest

    def manifests(self, repository: str, account: str) -> Sequence[Manifest]:
        return self.held.get((account, repository), [])

    def blob(self, digest: str) -> bytes | None:
        return self.blobs.get(digest)

    def drop(self, repository: str, account: str, digest: str, tag: str = "") -> None:
        kept = []
        for one in self.held[account, repository]:
            if one.digest != digest:
                kept.append(one)
            elif tag:
                left = tuple(t for t in one.tags if t != tag)
                kept.append(Manifest(one.digest, one.media_type, one.body, left, one.pushed_at, one.size))
        self.held[account, repository] = kept
