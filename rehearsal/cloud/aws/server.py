"""The HTTP server: loopback only, one thread a connection, the cloud's own time in `Date`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rehearsal.cloud.aws.errors import AwsError, written
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest, request
from rehearsal.contracts import Clock

LARGEST_BODY = 512 * 1024 * 1024
"""Bytes. Bodies are held in memory; nothing in a rehearsal is larger."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    front: Callable[[HttpRequest], HttpAnswer]
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
        raw = self._body()
        if raw is None:
            headers, body = written(
                AwsError("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size"), "rest-xml", ""
            )
            return self._send(HttpAnswer(400, {**headers, "Connection": "close"}, body))
        made = request(self.command, self.path, {k.lower(): ",".join(self.headers.get_all(k, [])) for k in self.headers}, raw)
        self._send(self.server.front(made))

    def _body(self) -> bytes | None:
        """What was sent, also in chunks; None when it is too large."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            parts: list[bytes] = []
            while size := int(self.rfile.readline(64).split(b";")[0] or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline(8)
                if sum(map(len, parts)) > LARGEST_BODY:
                    return None
            self.rfile.readline(8)
            return b"".join(parts)
        length = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(length) if length <= LARGEST_BODY else None

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        head = self.command == "HEAD"
        names = {name.lower() for name in answer.headers}
        for name, value in answer.headers.items():
            if name.lower() not in ("date", "server", "connection") and (head or name.lower() != "content-length"):
                self.send_header(name, value)
        if answer.stream is not None:
            return self._send_pieces(answer.stream)
        if not (head and "content-length" in names):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if not head:
            self.wfile.write(answer.body)

    def _send_pieces(self, pieces: Iterator[bytes]) -> None:
        """Each as soon as it is there. A client that went away ends the stream."""
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in pieces:
                if piece:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _any


class HttpServer:
    """Listens on a free port of 127.0.0.1 between `start` and `stop`."""

    def __init__(self, front: Callable[[HttpRequest], HttpAnswer], clock: Clock) -> None:
        self._front, self._clock = front, clock
        self._server: _Server | None = None
        self.port = 0

    def start(self) -> None:
        """Listen; returns when it answers."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.front, self._server.clock = self._front, self._clock
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="aws-http", daemon=True).start()

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
