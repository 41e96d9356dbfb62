"""A container registry and a model Hub on loopback: what the resolvers ask, with what they may answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIGEST = "sha256:" + "ab" * 32
COMMIT = "cd" * 20


@dataclass
class Names:
    """What the servers know. `status`: path prefix -> a status that is answered instead; `asked`: every path so far."""

    tags: dict[str, str] = field(default_factory=lambda: {"v0.27.0": DIGEST})
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    status: dict[str, tuple[int, Mapping[str, str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    base: str = ""
    token_needed: bool = True


@contextmanager
def serving(names: Names) -> Iterator[Names]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            names.asked.append(self.path)
            for prefix, (status, headers) in names.status.items():
                if path.startswith(prefix):
                    return self.reply(status, {}, headers)
            if path == "/token":
                return self.reply(200, {"token": "anonymous"})
            if path.startswith("/v2/") and names.token_needed and self.headers.get("Authorization") != "Bearer anonymous":
                challenge = f'Bearer realm="{names.base}/token",service="test",scope="repository:x:pull"'
                return self.reply(401, {}, {"WWW-Authenticate": challenge})
            if path.endswith("/tags/list"):
                return self.reply(200, {"tags": list(names.tags)})
            kind, _, name = path.rpartition("/")
            if kind.endswith("/manifests") and name in names.tags:
                return self.reply(200, {}, {"Docker-Content-Digest": names.tags[name]})
            if kind.endswith("/revision") and name in names.branches:
                return self.reply(200, {"sha": names.branches[name]})
            if path.endswith("/refs"):
                return self.reply(200, {"branches": [{"name": b} for b in names.branches], "tags": []})
            return self.reply(404, {})

        do_HEAD = do_GET

        def reply(self, status: int, document: object, headers: Mapping[str, str] | None = None) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    names.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield names
    finally:
        server.shutdown()
        server.server_close()
