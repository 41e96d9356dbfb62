"""What a chat user feels: streams of tokens through a relay that holds and stalls, each token timed on its way.

The relay's log says when each message came to it and when it left, so its own delays count for nothing. What is left holds the
way through the relay's own TLS, its process and ours, too. So the same streams are also run directly: this process speaks to the
same relay itself, without a tunnel. The difference is what the tunnel adds.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import itertools
import json
import logging
import selectors
import ssl
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import picows
import tunnel_load as load
import tunnel_stage as stage

from flexserve.tunnel import loops

INSTANCE = "chat-hold30-stall200p10"
TOKEN = 32  # bytes of a token
_quiet = logging.Logger("benchmark.picows", logging.CRITICAL + 1)


@dataclass(frozen=True)
class Chat:
    """Users who ask one question after another; the answer's tokens come at a rate. They start within one second."""

    streams: int = 64
    questions: int = 5  # of each user: one first token each, so that its 99th percentile is not just the worst of 64
    tokens: int = 30
    rate: int = 50
    pause_s: float = 0.1

    def question(self, ident: int) -> bytes:
        """What the machine is asked."""
        return b"chat %08d %d %d\n" % (ident, self.tokens, self.rate)


@dataclass
class Seen:
    """When each question was asked and each of its tokens came, `time.monotonic()`."""

    first_ident: int = 0
    asked: dict[int, float] = field(default_factory=dict)
    tokens: dict[int, list[float]] = field(default_factory=dict)

    def ask(self) -> int:
        """A new question; its number."""
        ident = self.first_ident + len(self.asked)
        self.tokens[ident] = []
        self.asked[ident] = time.monotonic()
        return ident


@dataclass
class _User:
    """`ident` is that of the running question, `rest` the bytes of a token that came in part."""

    ident: int = 0
    asked: int = 0
    rest: int = 0

    def took(self, seen: Seen, size: int, now: float) -> int:
        """Count what came; how many tokens of the running question are there."""
        whole, self.rest = divmod(self.rest + size, TOKEN)
        tokens = seen.tokens[self.ident]
        tokens.extend([now] * whole)
        return len(tokens)


def through(port: int, shape: Chat) -> Seen:
    """The streams through a tunnel, on connections that are open already, as a client's pool has them.

    One thread and epoll: the load must not wait for itself.
    """
    clients = [load.connect(port) for _ in range(shape.streams)]

    def warm(client) -> None:
        client.sendall(b"hello\n")
        load.exactly(client, 6)

    load.together([lambda client=client: warm(client) for client in clients])
    seen, room, left, order = Seen(), bytearray(65_536), shape.streams, itertools.count()
    with selectors.DefaultSelector() as waiting, quiet_gc():
        start = time.monotonic()
        due = [(start + number / shape.streams, next(order), client, _User()) for number, client in enumerate(clients)]
        for _, _, client, user in due:
            waiting.register(client, selectors.EVENT_READ, user)
        while left:
            now = time.monotonic()
            if now > start + load.LIMIT_S:
                raise ConnectionError("the streams did not end")
            while due and due[0][0] <= now:
                _, _, client, user = heapq.heappop(due)
                user.ident, user.asked, user.rest = seen.ask(), user.asked + 1, 0
                client.sendall(shape.question(user.ident))
            for key, _ in waiting.select(max(due[0][0] - time.monotonic(), 0) if due else 1.0):
                client, user = key.fileobj, key.data
                size = client.recv_into(room)
                now = time.monotonic()
                if not size:
                    raise ConnectionError("a stream ended early")
                if user.took(seen, size, now) < shape.tokens:
                    continue
                if user.asked < shape.questions:
                    heapq.heappush(due, (now + shape.pause_s, next(order), client, user))
                else:
                    waiting.unregister(client)
                    left -= 1
    for client in clients:
        client.close()
    return seen


class _Direct(picows.WSListener):
    """A client of the relay without a tunnel: it knows as much of the protocol as the streams need."""

    def __init__(self, shape: Chat, seen: Seen) -> None:
        self._shape, self._seen, self._user = shape, seen, _User()
        self._loop = asyncio.get_running_loop()
        self.warm, self.over = self._loop.create_future(), self._loop.create_future()

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        self._ws = transport

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        now = time.monotonic()
        message = frame.get_payload_as_memoryview()
        if frame.msg_type != picows.WSMsgType.BINARY:
            return
        tag = int.from_bytes(message[:2], "big")
        if tag == 1:
            self._send(b"hello\n")
        elif tag == 4 and not self.warm.done():
            self.warm.set_result(None)
        elif tag == 4:
            size = int.from_bytes(message[2:6], "big")
            if self._user.took(self._seen, size, now) < self._shape.tokens:
                return
            if self._user.asked < self._shape.questions:
                self._loop.call_later(self._shape.pause_s, self.ask)
            else:
                self.over.set_result(None)
                transport.disconnect()

    def ask(self) -> None:
        self._user.ident, self._user.asked, self._user.rest = self._seen.ask(), self._user.asked + 1, 0
        self._send(self._shape.question(self._user.ident))

    def _send(self, data: bytes) -> None:
        self._ws.send(picows.WSMsgType.BINARY, struct.pack(">HI", 4, len(data)) + data)


def direct(relay: stage.RelayProcess, shape: Chat, first_ident: int) -> Seen:
    """The streams without a tunnel: this process is the relay's client. No stream brings enough bytes to be acknowledged."""
    seen = Seen(first_ident)

    async def run() -> None:
        query = {"project": "p", "port": 8000, "newWebsocket": "True", "zone": "z", "instance": INSTANCE, "interface": "nic0"}
        users = []
        for _ in range(shape.streams):
            user = _Direct(shape, seen)
            await picows.ws_connect(
                lambda user=user: user, f"{relay.url}/connect?{urlencode(query)}",
                ssl_context=ssl.create_default_context(cafile=relay.ca_file), logger_name=_quiet,
                extra_headers={"Sec-WebSocket-Protocol": "relay.tunnel.cloudproxy.app"},
            )  # fmt: skip
            users.append(user)
        await asyncio.gather(*(user.warm for user in users))
        with quiet_gc():
            for number, user in enumerate(users):
                asyncio.get_running_loop().call_later(number / shape.streams, user.ask)
            async with asyncio.timeout(load.LIMIT_S):
                await asyncio.gather(*(user.over for user in users))

    loops.run(run())
    return seen


def beyond_the_relay(log: Path, seen: Seen) -> dict[str, float]:
    """Beyond the times at which the relay took and gave: p99 of the first token, of the gap, and of each token's way, ms."""
    sent: dict[int, list[float]] = {ident: [] for ident in seen.asked}
    arrived: dict[int, float] = {}
    for when, start in json.loads(log.read_text(encoding="utf-8")):
        words = start.split()
        if len(words) >= 2 and words[0] == "<chat":
            arrived[int(words[1])] = when
        elif len(words) >= 2 and words[0].isdigit() and len(words[0]) == 8 and int(words[0]) in sent:
            # One message may hold several tokens: those between its first and the next message's first left with it.
            times, index = sent[int(words[0])], int(words[1])
            times.extend(times[-1:] * (index - len(times)))
            times.append(when)
    first, gaps, ways = [], [], []
    for ident, times in seen.tokens.items():
        left = sent[ident] + [sent[ident][-1]] * (len(times) - len(sent[ident]))
        first.append((times[0] - seen.asked[ident]) - (left[0] - arrived[ident]))
        ways += [there - here for there, here in zip(times, left, strict=True)]
        gaps += [(b - a) - (d - c) for a, b, c, d in zip(times, times[1:], left, left[1:], strict=False)]
    return {
        "first_token_p99_ms": p99(first) * 1e3,
        "gap_p99_ms": p99(gaps) * 1e3,
        "way_p99_ms": p99(ways) * 1e3,
        "first_token_median_ms": median(first) * 1e3,
        "way_median_ms": median(ways) * 1e3,
    }


def p99(values: list[float]) -> float:
    """The value that 99 of 100 do not exceed."""
    return sorted(values)[min(int(len(values) * 0.99), len(values) - 1)]


@contextlib.contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection meanwhile: it would hold the load, and be taken for the tunnel."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
