"""What the tunnel's benchmarks do with a listening port. Blocking sockets and threads; every byte is checked where it counts."""

from __future__ import annotations

import contextlib
import hashlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tunnel_stage import PATTERN, Running, send_pattern

LIMIT_S = 120
PINGS = 20
AT_ONCE_LIMIT_S = 45  # without a byte; gcloud leaves some of the 64 hanging, which are counted as incomplete


def connect(port: int, limit_s: float = LIMIT_S) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=limit_s)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def exactly(client: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        data = client.recv(size - len(got))
        if not data:
            raise ConnectionError(f"ended after {len(got)} of {size} bytes")
        got += data
    return bytes(got)


def first_byte_ms(port: int) -> float:
    began = time.perf_counter()
    with connect(port) as client:
        client.sendall(b"hello\n")
        exactly(client, 6)
        return (time.perf_counter() - began) * 1e3


def connections_per_s(port: int, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        with connect(port) as client:
            client.sendall(b"echo\n" + b"x" * 64)
            exactly(client, 64)
    return count / (time.perf_counter() - began)


def ping_us(port: int, count: int) -> list[float]:
    with connect(port) as client:
        client.sendall(b"echo\n")
        times = []
        for _ in range(count):
            began = time.perf_counter()
            client.sendall(b"p" * 64)
            exactly(client, 64)
            times.append((time.perf_counter() - began) * 1e6)
    return times


def expected_digest(size: int) -> str:
    digest = hashlib.sha256()
    done = 0
    while done < size:
        start = done % 65_521
        part = memoryview(PATTERN)[start : start + min(1 << 20, size - done)]
        digest.update(part)
        done += len(part)
    return digest.hexdigest()


def download(tunnel: Running, size: int) -> tuple[float, float]:
    """MB/s, and the client's CPU seconds per GB. The digest is taken afterwards, the memory was touched before."""
    cpu = tunnel.cpu_s()
    kept = bytearray(b"\1") * size
    view, got = memoryview(kept), 0
    with connect(tunnel.port) as client:
        began = time.perf_counter()
        client.sendall(b"send %d\n" % size)
        while got < size:
            count = client.recv_into(view[got:])
            if not count:
                raise ConnectionError(f"ended after {got} of {size} bytes")
            got += count
        took = time.perf_counter() - began
    spent = tunnel.cpu_s() - cpu
    if hashlib.sha256(kept).hexdigest() != expected_digest(size):
        raise ConnectionError("the bytes differ")
    return size / took / 1e6, spent / size * 1e9


def upload(tunnel: Running, size: int) -> tuple[float, float]:
    """MB/s until the machine's digest is back, and the client's CPU seconds per GB."""
    wanted = expected_digest(size)
    cpu = tunnel.cpu_s()
    with connect(tunnel.port) as client:
        began = time.perf_counter()
        client.sendall(b"sink %d\n" % size)
        send_pattern(client, size)
        answer = exactly(client, 64).decode()
        took = time.perf_counter() - began
    if answer != wanted:
        raise ConnectionError("the bytes differ")
    return size / took / 1e6, (tunnel.cpu_s() - cpu) / size * 1e9


@dataclass
class _AtOnce:
    """One of the clients: `PINGS` pings, then a transfer."""

    client: socket.socket
    pings: int = 0
    got: int = 0


def at_once(port: int, count: int, size: int) -> dict[str, float]:
    """`count` clients together: 20 pings, then `size` bytes down each. One thread and epoll: the load must not wait for itself."""
    first: list[float] = []
    complete = 0
    room = memoryview(bytearray(256 * 1024))
    began = time.perf_counter()
    with selectors.DefaultSelector() as waiting, contextlib.ExitStack() as sockets:
        for _ in range(count):
            one = _AtOnce(sockets.enter_context(connect(port, AT_ONCE_LIMIT_S)))
            one.client.sendall(b"hello\n")
            waiting.register(one.client, selectors.EVENT_READ, one)
        while waiting.get_map():
            ready = waiting.select(AT_ONCE_LIMIT_S)
            if not ready:
                break  # those that are left hang
            for key, _ in ready:
                one = key.data
                try:
                    over = _turn(one, room, size, lambda: first.append(time.perf_counter() - began))
                except OSError:
                    over = True
                if over:
                    complete += one.got == size
                    waiting.unregister(one.client)
    return {"all_done_s": time.perf_counter() - began, "first_byte_s": median(first), "complete": complete, "of": count}


def _turn(one: _AtOnce, room: memoryview, size: int, on_first: Callable[[], None]) -> bool:
    """What a client does with what it can read now; whether it is done. An answer of six bytes comes in one piece."""
    if one.pings < PINGS:
        if one.client.recv(6) != b"hello\n":
            return True
        if not one.pings:
            on_first()
        one.pings += 1
        one.client.sendall(b"hello\n" if one.pings < PINGS else b"send %d\n" % size)
        return False
    count = one.client.recv_into(room)
    one.got += count
    return not count


def together(calls: list) -> None:
    failures: list[BaseException] = []

    def guarded(call) -> None:
        try:
            call()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
