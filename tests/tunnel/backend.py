"""The machine's side in the tests: a threaded server that is told in its first line what to do."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from dataclasses import dataclass, field

PATTERN = hashlib.shake_256(b"flexserve tunnel").digest(65_521)  # prime: a shifted repeat never matches


def stream(size: int, start: int = 0) -> bytes:
    """`size` bytes of the endless pattern, from offset `start`."""
    offset = start % len(PATTERN)
    repeats = (offset + size) // len(PATTERN) + 1
    return (PATTERN * repeats)[offset : offset + size]


@dataclass
class Backend:
    """`echo`; `send N`, then closes at once; `sendkeep N`, then waits; `sink N`, answers the digest; `slow`, `late`."""

    connections: int = 0
    open: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Backend:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def connect(self, instance: str, zone: str, port: int) -> socket.socket:
        """For `Relay`: 8000 is this server, 22 one that speaks first; nothing listens elsewhere; there is no instance `missing`."""
        if instance == "missing":
            raise LookupError(instance)
        if port not in (8000, 22):
            raise ConnectionRefusedError(port)
        client = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        if port == 22:
            client.sendall(b"ssh\n")
        return client

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self.open += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as lines:
                words = lines.readline().decode().split()
                if words:
                    getattr(self, f"_do_{words[0]}")(client, lines, *map(int, words[1:]))
        except OSError:
            pass
        finally:
            with self._lock:
                self.open -= 1

    def _do_echo(self, client, lines) -> None:
        while data := lines.read1(65_536):
            client.sendall(data)

    def _do_ssh(self, client, lines) -> None:
        """As an ssh server begins: both say their version at once; then it echoes, and says goodbye after `bye`."""
        client.sendall(b"SSH-2.0-stand-in\r\n")
        if lines.readline().startswith(b"SSH-2.0-"):
            while (line := lines.readline()) not in (b"", b"bye\n"):
                client.sendall(line)
            client.sendall(b"goodbye\n")

    def _do_send(self, client, lines, size: int) -> None:
        client.sendall(stream(size))

    def _do_sendkeep(self, client, lines, size: int) -> None:
        client.sendall(stream(size))
        lines.read(1)

    def _do_sink(self, client, lines, size: int) -> None:
        digest = hashlib.sha256()
        left = size
        while left and (data := lines.read1(min(left, 262_144))):
            digest.update(data)
            left -= len(data)
        client.sendall(digest.hexdigest().encode())
        lines.read(1)  # the client closes first

    def _do_slow(self, client, lines, size: int, wait_ms: int) -> None:
        """Reads nothing for a while, then all."""
        time.sleep(wait_ms / 1000)
        self._do_sink(client, lines, size)

    def _do_late(self, client, lines, size: int, wait_ms: int) -> None:
        """Answers late."""
        time.sleep(wait_ms / 1000)
        client.sendall(stream(size))
