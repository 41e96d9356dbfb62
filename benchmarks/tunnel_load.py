"""What the tunnel's benchmarks do with a listening port. Blocking sockets and threads; every byte is checked where it counts."""

from __future__ import annotations

import hashlib
import json
import selectors
import socket
import threading
import time
from pathlib import Path
from statistics import median

from tunnel_stage import PATTERN, Running, send_pattern

LIMIT_S = 120
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
    """MB/s, and the client's CPU seconds per GB. The digest is taken afterwards."""
    cpu = tunnel.cpu_s()
    kept = bytearray(size)
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


def at_once(port: int, count: int, size: int) -> dict[str, float]:
    """`count` clients together: 20 pings, then `size` bytes down each."""
    first: list[float] = []
    whole: list[bool] = []
    began = time.perf_counter()

    def one() -> None:
        try:
            with connect(port, AT_ONCE_LIMIT_S) as client:
                for number in range(20):
                    client.sendall(b"hello\n")
                    exactly(client, 6)
                    if not number:
                        first.append(time.perf_counter() - began)
                client.sendall(b"send %d\n" % size)
                whole.append(len(exactly(client, size)) == size)
        except OSError:
            whole.append(False)

    together([one] * count)
    return {"all_done_s": time.perf_counter() - began, "first_byte_s": median(first), "complete": sum(whole), "of": count}


def chat(port: int, streams: int, tokens: int, rate: int) -> tuple[dict[int, float], dict[int, list[float]]]:
    """Streams of tokens on connections that are open already, as a client's pool has them: request times and token times.

    One thread and epoll: the load must not wait for itself.
    """
    clients = [connect(port) for _ in range(streams)]

    def warm(client: socket.socket) -> None:
        client.sendall(b"hello\n")
        exactly(client, 6)

    together([lambda client=client: warm(client) for client in clients])
    asked: dict[int, float] = {}
    seen: dict[int, list[float]] = {ident: [] for ident in range(streams)}
    rest = [0] * streams
    start, open_streams = time.monotonic(), streams
    with selectors.DefaultSelector() as waiting:
        while open_streams:
            now = time.monotonic()
            if now > start + LIMIT_S:
                raise ConnectionError("the streams did not end")
            while len(asked) < streams and now >= start + len(asked) / streams:  # a second's worth of users
                ident = len(asked)
                waiting.register(clients[ident], selectors.EVENT_READ, ident)
                asked[ident] = time.monotonic()
                clients[ident].sendall(b"chat %08d %d %d\n" % (ident, tokens, rate))
            pause = start + len(asked) / streams - now if len(asked) < streams else 1.0
            for key, _ in waiting.select(max(pause, 0)):
                ident = key.data
                data = clients[ident].recv(65_536)
                now = time.monotonic()
                if not data:
                    raise ConnectionError("a stream ended early")
                whole, rest[ident] = divmod(rest[ident] + len(data), 32)
                seen[ident].extend([now] * whole)
                if len(seen[ident]) == tokens:
                    waiting.unregister(clients[ident])
                    open_streams -= 1
    for client in clients:
        client.close()
    return asked, seen


def chat_added(log: Path, asked: dict[int, float], seen: dict[int, list[float]]) -> dict[str, float]:
    """What the tunnel added to the relay's own times, ms: p99 of the first token, of the gap, and of each token's way."""
    sent: dict[int, list[float]] = {ident: [] for ident in seen}
    arrived: dict[int, float] = {}
    for when, start in json.loads(log.read_text(encoding="utf-8")):
        words = start.split()
        if len(words) >= 2 and words[0] == "<chat":
            arrived[int(words[1])] = when
        elif len(words) >= 2 and words[0].isdigit() and len(words[0]) == 8:
            # One message may hold several tokens: those between its first and the next message's first left with it.
            times, index = sent[int(words[0])], int(words[1])
            times.extend(times[-1:] * (index - len(times)))
            times.append(when)
    first, gaps, ways = [], [], []
    for ident, times in seen.items():
        left = sent[ident] + [sent[ident][-1]] * (len(times) - len(sent[ident]))
        first.append((times[0] - asked[ident]) - (left[0] - arrived[ident]))
        ways += [there - here for there, here in zip(times, left, strict=True)]
        gaps += [(b - a) - (d - c) for a, b, c, d in zip(times, times[1:], left, left[1:], strict=False)]
    return {
        "first_token_p99_ms": p99(first) * 1e3,
        "gap_p99_ms": p99(gaps) * 1e3,
        "way_p99_ms": p99(ways) * 1e3,
        "way_median_ms": median(ways) * 1e3,
    }


def p99(values: list[float]) -> float:
    return sorted(values)[min(int(len(values) * 0.99), len(values) - 1)]


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
