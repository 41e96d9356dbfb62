"""The relay's side of one session: the machine's socket, what the client has and has not acknowledged, and the faults.

Written on its own, from the protocol's description: it shares no code with the product's client, so that a mistake in
one of them shows.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from picows import WSMsgType, WSTransport

from rehearsal.relay.faults import Cut, Faults
from rehearsal.relay.held import Held
from rehearsal.relay.link import TAG_DATA, Link

DATA_MAX, DATA_LARGE = 16_384, 65_536
TOGETHER = 16  # messages that are written at once, as a whole read of the machine's socket leaves
WINDOW = 4 << 20  # bytes sent and not acknowledged before the machine's socket is no longer read
ACK_EVERY, ACK_AFTER_S = 32_768, 0.2
_incoming = memoryview(bytearray(256 * 1024))  # a new object of that size a read costs a mapping in the kernel
_TAG_SID, _TAG_RESUMED, _TAG_ACK = 1, 2, 7


class Session(asyncio.BufferedProtocol):
    """A relayed connection; the protocol of the machine's socket."""

    def __init__(self, faults: Faults, ended: Callable[[Session], None], keep_s: float, log: list[tuple[float, bytes]] | None):
        self.sid = secrets.token_urlsafe(24)
        self.received = 0  # from the client
        self.sent = 0  # to the client, ever
        self.acked = 0
        self.resumes = 0
        self.client_acks = 0
        self._faults, self._ended, self._keep_s, self._log = faults, ended, keep_s, log
        self._loop = asyncio.get_running_loop()
        self._backend: asyncio.Transport | None = None
        self._link: Link | None = None
        self._gathered: list[bytes] = []  # from the client in this read
        self._queue: deque[memoryview] = deque()
        self._queued = 0
        self._unacked: deque[memoryview] = deque()
        self._told = 0
        self._timer: asyncio.TimerHandle | None = None
        self._forget: asyncio.TimerHandle | None = None
        self._backend_ended: int = 0  # close code once the machine's side is over
        self._reading = True
        self._chunk = DATA_LARGE if faults.large else DATA_MAX
        self._cuts = list(faults.cuts)
        self._marks = {cut: cut.after for cut in faults.cuts}
        chance = random.Random(self.sid if not faults.stall_share else 0)
        held = bool(faults.hold_s or faults.stall_share)
        self._down = Held(faults.hold_s, faults.stall_s, faults.stall_share, chance) if held else None
        self._up = Held(faults.hold_s, faults.stall_s, faults.stall_share, chance) if held else None

    # the machine's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The machine's port is connected."""
        self._backend = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (asyncio's signature)
        """One for all sessions: what was read is copied before the next read."""
        return _incoming

    def buffer_updated(self, nbytes: int) -> None:
        """The machine sent something."""
        data = bytes(_incoming[:nbytes])
        if self._down is None:
            self._enqueue(data)
        else:
            self._down.put(lambda: self._enqueue(data))

    def eof_received(self) -> bool:
        """The machine closed its side."""
        self._backend_over(1000)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The machine's socket is closed."""
        self._backend = None
        self._backend_over(1000 if exc is None else 4010)

    def pause_writing(self) -> None:
        """Too much waits to be written."""
        if self._link is not None:
            self._link.read(False)

    def resume_writing(self) -> None:
        """What waited was written."""
        if self._link is not None:
            self._link.read(True)

    def _backend_over(self, code: int) -> None:
        def over() -> None:
            self._backend_ended = self._backend_ended or code
            self.pump()

        if self._down is None:
            over()
        else:
            self._down.put(over)

    def _enqueue(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(data), self._chunk):
            self._queue.append(view[start : start + self._chunk])
        self._queued += len(data)
        self.pump()

    # the client's side

    def confirm(self, link: Link) -> None:
        """The machine's port is connected: the client's first message."""
        self._attach(link)
        sid = self.sid.encode()
        if self._faults.garbage == "earlydata":
            link.send(struct.pack(">HI", TAG_DATA, 5) + b"early")
        if self._down is None:
            link.send(struct.pack(">HI", _TAG_SID, len(sid)) + sid)
            self._garbage(link)
        else:
            self._down.put(lambda: link.send(struct.pack(">HI", _TAG_SID, len(sid)) + sid))
        self.pump()

    def resume(self, link: Link, ack: int) -> None:
        """A new link for a broken session; the client has `ack` bytes."""
        if self._link is not None:
            self._link.session = None
            self._link.reset()
        if not self.acked <= ack <= self.sent:
            link.close(4005, "bad ack")
            return
        self.resumes += 1
        self._drop(ack)
        for chunk in reversed(self._unacked):
            self._queue.appendleft(chunk)
            self._queued += len(chunk)
        self._unacked.clear()
        self.sent = self.acked
        for cut in self._cuts:
            if cut.every:
                self._marks[cut] = self._count(cut) + cut.after
        self._attach(link)
        self._told = self.received
        link.send(struct.pack(">HQ", _TAG_RESUMED, self.received))
        self.pump()

    def from_client(self, link: Link, message: memoryview) -> None:
        """A message of the client, whose memory is lent."""
        if link is not self._link or len(message) < 2:
            return
        tag = int.from_bytes(message[:2], "big")
        if tag == _TAG_ACK and len(message) >= 10:
            number = int.from_bytes(message[2:10], "big")
            self.client_acks += 1
            if not self.acked <= number <= self.sent:
                link.close(4005, "bad ack")
                return
            self._drop(number)
            self.pump()
        elif tag == TAG_DATA and len(message) >= 6:
            length = int.from_bytes(message[2:6], "big")
            if length > DATA_MAX or length > len(message) - 6:
                link.close(4013, "invalid data")
                return
            payload = bytes(message[6 : 6 + length])
            if self._log is not None:
                self._log.append((time.monotonic(), b"<" + payload[:24]))
            if self._up is not None:
                self._up.put(lambda: self._to_machine(payload))
            elif self._cuts:
                self._to_machine(payload)
            else:
                self._gathered.append(payload)
        else:
            link.close(4008, "invalid tag")

    def read_over(self) -> None:
        """What one read of the client's socket brought goes to the machine at once."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._to_machine(b"".join(gathered))

    def client_closed(self) -> None:
        """The client ended the session."""
        self.read_over()
        if self._up is None:
            self._over()
        else:
            self._up.put(self._over)

    def link_lost(self, link: Link) -> None:
        """A link broke; the session waits for a resume."""
        if link is not self._link:
            return
        self._link = None
        self._gathered.clear()  # not counted as received: the client sends it again
        if self._backend is not None:
            self._backend.resume_reading() if not self._reading else None
            self._reading = True
        self._forget = self._loop.call_later(0.0 if self._faults.forget else self._keep_s, self._over)

    def pump(self) -> None:
        """Send what the window and the link allow, then read on or wait."""
        link = self._link
        together: list[memoryview] = []
        while link is not None and self._queue and not link.full and self.sent - self.acked < WINDOW:
            chunk = self._queue.popleft()
            self._queued -= len(chunk)
            self._unacked.append(chunk)
            self.sent += len(chunk)
            if self._log is not None:
                self._log.append((time.monotonic(), bytes(chunk[:24])))
            together.append(chunk)
            if self._cuts or len(together) >= TOGETHER:
                link.send_data(together)
                together = []
            if self._cuts and self._cut("down"):
                return
        if link is not None and together:
            link.send_data(together)
        if link is not None and self._backend_ended and not self._queue:
            self._link, link.session = None, None
            link.close(self._backend_ended)
            self._over()
        elif self._backend is not None:
            wanted = self._queued + self.sent - self.acked < WINDOW
            if wanted != self._reading:
                self._reading = wanted
                self._backend.resume_reading() if wanted else self._backend.pause_reading()

    def close(self) -> None:
        """The relay stops."""
        link, self._link = self._link, None
        if link is not None:
            link.session = None
            link.reset()
        self._over()

    def _attach(self, link: Link) -> None:
        self._link, link.session = link, self
        if self._forget is not None:
            self._forget.cancel()
            self._forget = None

    def _to_machine(self, payload: bytes) -> None:
        self.received += len(payload)
        if self._backend is not None and not self._backend_ended:
            self._backend.write(payload)
        if not self._faults.no_ack:
            if self.received - self._told >= ACK_EVERY:
                self._ack()
            elif self._timer is None:
                self._timer = self._loop.call_later(ACK_AFTER_S, self._ack)
        if self._cuts:
            self._cut("up")

    def _ack(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._link is not None and self.received > self._told:
            self._told = self.received
            self._link.send(struct.pack(">HQ", _TAG_ACK, self.received))

    def _drop(self, number: int) -> None:
        gone = number - self.acked
        self.acked = number
        while gone > 0:
            first = self._unacked.popleft()
            if len(first) > gone:
                self._unacked.appendleft(first[gone:])
            gone -= len(first)

    def _count(self, cut: Cut) -> int:
        return self.sent if cut.direction == "down" else self.received

    def _cut(self, direction: str) -> bool:
        """Break the link when a fault is due; whether it did."""
        link = self._link
        due = [cut for cut in self._cuts if cut.direction == direction and self._count(cut) >= self._marks[cut]]
        if not due or link is None:
            return False
        cut = due[0]
        if cut.every:
            self._marks[cut] = self._count(cut) + cut.after
        else:
            self._cuts.remove(cut)
        if cut.how == "reset":
            link.reset()
        elif cut.how == "fin":
            link.end()
        else:
            link.close(int(cut.how), "fault")
        self.link_lost(link)
        link.session = None
        return True

    def _garbage(self, link: Link) -> None:
        kind = self._faults.garbage
        if kind == "noise":
            link.raw(random.Random(7).randbytes(4096))
        elif kind == "text":
            cast(WSTransport, link.ws).send(WSMsgType.TEXT, b"hello")
        elif kind == "oversize":
            link.raw(b"\x82\x7f" + struct.pack(">Q", 1 << 40) + b"x" * 100)
        elif kind == "short":
            link.send(struct.pack(">HI", TAG_DATA, 1000) + b"short")
        elif kind == "badack":
            link.send(struct.pack(">HQ", _TAG_ACK, 1 << 60))
        elif kind == "secondsid":
            link.send(struct.pack(">HI", _TAG_SID, 3) + b"two")
        elif kind == "masked":
            link.raw(b"\x82\x86\0\0\0\0" + struct.pack(">HI", TAG_DATA, 0))

    def _over(self) -> None:
        for timer in (self._timer, self._forget):
            if timer is not None:
                timer.cancel()
        self._forget = None
        if self._backend is not None:
            self._backend.close()
        link, self._link = self._link, None
        if link is not None:
            link.session = None
        self._ended(self)
