"""What every stand-in over HTTP shares: one request as data, one reply, ranges, faults of a transfer."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import socketserver
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

SLOW_BYTES_PER_SECOND = 256 * 1024
SMALL, LARGE = 64 * 1024, 1024 * 1024  # bytes written at once: of a transfer that is slow or cut, of any other


@dataclass(frozen=True)
class Request:
    """One request. `query` holds the last value of each name; header names are in lower case; `target` is as it was sent."""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    target: str = ""


@dataclass
class Reply:
    """One answer. `chunks`, when given, is sent in place of `body` and `length` must be set. `fault`: slow or cut."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes | memoryview] | None = None
    length: int | None = None
    fault: str = ""


Answer = Callable[[Request], Reply]


class Reset(Exception):
    """End this connection with a TCP reset, as a broken server does."""


def ranged(data: bytes, request: Request, headers: Mapping[str, str]) -> Reply:
    """`data` or the part that the request's Range asks for (206), or 416."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    base = {"Accept-Ranges": "bytes", **headers}
    if not match:
        return Reply(200, data, base)
    first, last = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
    if first >= len(data):
        return Reply(416, b"", {**base, "Content-Range": f"bytes */{len(data)}"})
    return Reply(206, data[first : last + 1], {**base, "Content-Range": f"bytes {first}-{last}/{len(data)}"})


def handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    """A handler class that gives every request to `answer`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 75
        wbufsize = 64 * 1024

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = _body(self.rfile, self.headers)
            request = Request(
                method=self.command,
                host=self.headers.get("Host", "").split(":")[0].lower(),
                path=unquote(parts.path),
                query={name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()},
                headers={name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers},
                body=body,
                target=self.path,
            )
            try:
                self._send(answer(request), head=self.command == "HEAD")
            except Reset:
                self._reset()
            except LookupError as error:  # the instance is gone while its machine still runs
                self._send(Reply(503, str(error).encode()), head=self.command == "HEAD")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _serve

        def version_string(self) -> str:
            return "stand-in"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _send(self, reply: Reply, *, head: bool) -> None:
            length = reply.length if reply.length is not None else len(reply.body)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.status != 204 and "Content-Length" not in reply.headers:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            if not head:
                chunks = reply.chunks if reply.chunks is not None else _pieces(reply.body, SMALL if reply.fault else LARGE)
                self._body(chunks, length, reply.fault)
            self.wfile.flush()

        def _body(self, chunks: Iterable[bytes | memoryview], length: int, fault: str) -> None:
            sent = 0
            for chunk in chunks:
                self.wfile.write(chunk)
                sent += len(chunk)
                if fault == "slow":
                    time.sleep(len(chunk) / SLOW_BYTES_PER_SECOND)
                if fault == "cut" and sent * 2 >= length:
                    self.wfile.flush()
                    raise Reset

        def _reset(self) -> None:
            with contextlib.suppress(OSError):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                os.close(self.connection.detach())
            self.close_connection = True

    return Handler


def _body(stream: IO[bytes], headers: Message) -> bytes:
    """A request's whole body, also one whose length its sender did not know (a layer that is compressed while it is sent)."""
    if headers.get("Transfer-Encoding", "").lower() != "chunked":
        return stream.read(int(headers.get("Content-Length") or 0))
    whole = bytearray()
    while length := int(stream.readline().split(b";")[0] or b"0", 16):
        whole += stream.read(length)
        stream.readline()
    while stream.readline().strip():  # trailers
        pass
    return bytes(whole)


def _pieces(data: bytes, size: int) -> Iterable[memoryview]:
    view = memoryview(data)
    for start in range(0, len(data), size):
        yield view[start : start + size]


class Server(ThreadingHTTPServer):
    """A threading server that drops broken connections without a word."""

    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True
    quiet: ClassVar[tuple[type[BaseException], ...]] = (OSError, ssl.SSLError)

    def server_bind(self) -> None:
        """Bind, and ask no name server who we are (there is none yet)."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say so only when it is not a connection that broke."""
        if not isinstance(sys.exc_info()[1], self.quiet):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(address: str, port: int, answer: Answer, context: ssl.SSLContext | None = None) -> Server:
    """A server that listens; run `serve_forever` in a thread. With a context it speaks TLS, the handshake in each thread."""
    server = Server((address, port), handler(answer))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server
