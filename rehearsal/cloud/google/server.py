"""The HTTP server: loopback only, one thread a connection, the cloud's own time in `Date`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from rehearsal.cloud.google.api import Answer, Front
from rehearsal.contracts import Clock

Control = Callable[[str, str, bytes], Answer]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    front: Front
    control: Control
    clock: Clock


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """The request log is the cloud's own."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The cloud's time."""
        return formatdate(self.server.clock.now() if timestamp is None else timestamp, usegmt=True)

    def _any(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        if url.path.startswith("/_control/"):
            answer = self.server.control(self.command, url.path, raw)
        else:
            host, port = self.server.server_address[:2]
            kind, _, token = self.headers.get("Authorization", "").partition(" ")
            bearer = token.strip() if kind.lower() == "bearer" else ""
            answer = self.server.front.answer(self.command, url.path, url.query, raw, bearer, f"http://{host!s}:{port}")
        data = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any


class HttpServer:
    """Listens on a free port of 127.0.0.1 between `start` and `stop`."""

    def __init__(self, front: Front, control: Control, clock: Clock) -> None:
        self._front, self._control, self._clock = front, control, clock
        self._server: _Server | None = None
        self.port = 0

    def start(self) -> None:
        """Listen; returns when it answers."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.front, self._server.control, self._server.clock = self._front, self._control, self._clock
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="cloud-http", daemon=True).start()

    def stop(self) -> None:
        """Stop listening. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    @property
    def base(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.port}"
