"""One local TCP connection and its relay session, glued: back-pressure both ways, resume, half-close, and honest ends.

A connection ends in one of two ways. Cleanly, when the machine's side closed and every byte was delivered; or with a
reset and a cause. A cut transfer never looks complete.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
from collections.abc import Callable
from typing import cast

from flexserve.tunnel import peer
from flexserve.tunnel.iap import codes
from flexserve.tunnel.iap.codes import After, TunnelFailure
from flexserve.tunnel.iap.hooks import Ended, Hooks
from flexserve.tunnel.iap.rooms import ROOM
from flexserve.tunnel.iap.session import Session, State
from flexserve.tunnel.iap.transport import Dialer, Link
from verdict.errors import FlexserveError

_FIRST_DELAY_S, _DELAY_GROWTH, _LAST_DELAY_S = 0.25, 1.6, 15.0
_LOOK_S = 0.25  # how often a half-closed client is looked at
_ANSWERED_S = 2.0  # where the system cannot say whether a client is gone: it had its answer and is silent this long
_PATIENCE_S = 1.0  # a client that leaves before its link is there, and did not wait so long, had reasons of its own
_RESUMABLE = (After.RESUME, After.RESUME_FRESH_TOKEN)
_NONE = Hooks()


class Connection(asyncio.BufferedProtocol):
    """The protocol of the accepted local socket. Opened before it when the session is made in advance (`open`)."""

    def __init__(self, dialer: Dialer, hooks: Hooks = _NONE) -> None:
        self.session = Session()
        self.number = 0  # the owner's
        self.started_at = 0.0  # the owner's
        self.resumes = 0
        self._dialer = dialer
        self._limits = dialer.limits
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._broken: asyncio.Future[TunnelFailure] = self._loop.create_future()
        self._confirmed: asyncio.Future[None] | None = None
        self._local: asyncio.Transport | None = None
        self._local_paused = False
        self._local_full = False
        self._early = bytearray()  # received before there was a client
        self._room: memoryview | None = None  # received in this read, not yet with the local socket
        self._filled = 0
        self._ack_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None  # the client is gone and waits for the last acknowledgement
        self._task: asyncio.Task[None] | None = None
        self._eof_task: asyncio.Task[None] | None = None
        self._barren_since = math.inf  # when the tries began that have brought nothing yet
        self._last_data_at = self._loop.time()
        self._answered = False  # the last data went to the client
        self._over = False

    # opening, resuming, ending

    async def open(self) -> None:
        """Open a session and wait for its confirmation. Raises `TunnelFailure` or `NoAccess`; one try."""
        await self._open_link(fresh_token=False)

    @property
    def usable(self) -> bool:
        """Opened in advance and still good."""
        return self._link is not None and not self._broken.done() and self.session.state is State.READY and not self._over

    def discard(self) -> None:
        """Give back a session that no client used, or end everything at once (the tunnel closes)."""
        self._finish(None, reset=self._local is not None)

    def poke(self) -> None:
        """The network may have changed under us (sleep, another network): break the link, so that it is resumed now."""
        if self._link is not None:
            self._link.fail(TunnelFailure(codes.UNKNOWN, "this machine slept or changed its network"))

    async def _open_link(self, *, fresh_token: bool) -> None:
        self._broken = self._loop.create_future()
        self._confirmed = self._loop.create_future()
        self._link = None
        link = await self._dialer.open(self.session, self, fresh_token=fresh_token)
        if not self._broken.done():  # else it brought its confirmation and its end before we were told that it is open
            self._link = link
        try:
            async with asyncio.timeout(self._limits.confirm_s):
                await asyncio.wait((self._confirmed, self._broken), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            link.drop()
            self._link = None
            self.session.broke()
            raise TunnelFailure(codes.SILENT, f"no confirmation within {self._limits.confirm_s:g} s") from None
        except asyncio.CancelledError:
            link.close()  # an orderly end: the relay must not keep the session for a resume
            raise
        if not self._confirmed.done():
            raise self._broken.result()
        self._hooks.link()
        self._catch_up()

    def _catch_up(self) -> None:
        """Do what messages that came before the link was known to be open would have done with it."""
        if self._link is not None and (self._local_full or (self._local is None and self._early)):
            self._link.read(False)
        if self.session.ack_due:
            self._ack()
        self._pump()

    async def _run(self) -> None:
        try:
            if not self.usable:
                await self._keep_trying(self._limits.open_s, None)
            while True:
                failure = await asyncio.shield(self._broken)
                if failure.ending.after is After.FINISHED:
                    return self._finish(None)
                if failure.ending.after not in _RESUMABLE:
                    raise failure
                self.resumes += 1
                self._hooks.resume(self, failure)
                await self._keep_trying(self._limits.resume_s, failure)
        except TunnelFailure as failure:
            self._finish(failure, reset=True)
        except FlexserveError as error:  # no token
            self._finish(TunnelFailure(codes.of_status(401), str(error.what)), reset=True)
        except Exception as error:  # a bug of ours must not look like a clean end
            self._finish(TunnelFailure(codes.PROTOCOL, f"internal error: {error!r}"), reset=True)

    async def _keep_trying(self, limit: float, failure: TunnelFailure | None) -> None:
        """Open a link, again and again while the causes pass, up to `limit` seconds without progress of the session."""
        progress = (self.session.received, self.session.acked)
        if failure is None or progress != getattr(self, "_progress", None):
            self._delay, self._barren_since, self._refused = 0.0, self._loop.time(), 0
        self._progress = progress
        while True:
            fresh = failure is not None and failure.ending.after is After.RESUME_FRESH_TOKEN
            self._refused += fresh
            if fresh and self._refused > 2 and failure is not None:
                raise failure  # two new tokens in a row were refused
            if self._loop.time() - self._barren_since > limit:
                said = failure.detail if failure else ""
                raise TunnelFailure(codes.GAVE_UP, f"{said} (for {limit:g} s)".strip())
            if self._delay:
                await asyncio.sleep(self._delay * random.uniform(0.75, 1.25))
            self._delay = min(max(self._delay * _DELAY_GROWTH, _FIRST_DELAY_S), _LAST_DELAY_S)
            try:
                return await self._open_link(fresh_token=fresh)
            except TunnelFailure as again:
                if again.ending.after not in _RESUMABLE:
                    raise
                self._hooks.trouble(self, again)
                failure = again

    def _finish(self, failure: TunnelFailure | None, *, reset: bool = False, why: str = "") -> None:
        """The connection is over. `reset`: the client sees a reset; otherwise all that was received, then the end."""
        if self._over:
            return
        self._over = True
        for timer in (self._ack_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._flush()
        link, self._link = self._link, None
        if link is not None:
            link.close()
        local, self._local = self._local, None
        if local is not None:
            if reset:
                peer.reset(local)
            else:
                local.close()
        for task in (self._task, self._eof_task):
            if task is not None and task is not _current_task():
                task.cancel()
        self._hooks.end(self, Ended(failure, self.resumes, why))

    # the relay's side (transport.Owner)

    def on_message(self, message: memoryview, last: bool) -> None:
        """A message of the relay; gathers DATA and writes it once a read."""
        payload = self.session.receive(message)
        if payload is not None:
            room = self._room
            if room is None:
                self._gather(payload, last)
                return
            filled = self._filled
            end = filled + len(payload)
            if end > ROOM:
                self._flush()
                self._gather(payload, last)
                return
            room[filled:end] = payload
            self._filled = end
            if last:
                self._flush()
            return
        if last:
            self._flush()
        if self._confirmed is not None and not self._confirmed.done() and self.session.state is State.READY:
            self._confirmed.set_result(None)
        if self._drained is not None and not self.session.unacked and not self._drained.done():
            self._drained.set_result(None)
        self._pump()

    def _gather(self, payload: memoryview, last: bool) -> None:
        """The first DATA of a read: alone it goes straight on, else a room is taken for it and what follows."""
        if self._local is None:
            self._early += payload
            if last:
                self._flush()
        elif last or len(payload) > ROOM:
            self._deliver(bytes(payload))
        else:
            self._room = self._dialer.rooms.take()
            self._filled = len(payload)
            self._room[: self._filled] = payload

    def on_writable(self) -> None:
        """The link takes more."""
        self._pump()

    def on_ended(self, link: Link, failure: TunnelFailure) -> None:
        """The link is over: what it brought is delivered first."""
        self._flush()
        if link is self._link or self._link is None:
            self._link = None
            self.session.broke()
            if not self._broken.done():
                self._broken.set_result(failure)

    def _flush(self) -> None:
        if self._local is None:
            if self._early and self._link is not None:
                self._link.read(False)  # no client yet: the rest stays with the relay
            return
        if self._early:
            early, self._early = self._early, bytearray()
            self._deliver(early)
        room, self._room = self._room, None
        if room is not None:
            filled, self._filled = self._filled, 0
            local = self._local
            self._deliver(room[:filled])
            if not local.get_write_buffer_size():  # else the transport may keep a view of it
                self._dialer.rooms.give(room)

    def _deliver(self, data: bytes | bytearray | memoryview) -> None:
        local = cast(asyncio.Transport, self._local)
        local.write(data)
        self._answered = True
        self._last_data_at = self._loop.time()
        if self.session.ack_due:
            self._ack()
        elif self._ack_timer is None:
            self._ack_timer = self._loop.call_later(self._limits.ack_after_s, self._ack_after_lull)

    def _ack_after_lull(self) -> None:
        self._ack_timer = None
        self._ack()

    def _ack(self) -> None:
        if self._link is not None:
            message = self.session.ack()
            if message is not None:
                self._link.send(message)

    def _pump(self) -> None:
        """Send what may be sent, then let the local side read or wait."""
        link, session = self._link, self.session
        if link is not None:
            while not link.paused:
                message = session.next_message()
                if message is None:
                    break
                link.send(message)
        full = session.unacked >= self._limits.unacked
        if full and link is not None and not link.paused and self._stall_timer is None:
            self._stall_timer = self._loop.call_later(self._limits.stall_s, self._stalled, session.acked)
        pause = full or session.unsent_bytes >= self._limits.unsent
        if pause != self._local_paused and self._local is not None:
            self._local_paused = pause
            self._local.pause_reading() if pause else self._local.resume_reading()

    def _stalled(self, acked: int) -> None:
        self._stall_timer = None
        if self.session.acked == acked and self.session.unacked >= self._limits.unacked and self._link is not None:
            self._finish(
                TunnelFailure(codes.NO_ACKS, f"{self.session.in_flight} bytes, none acknowledged in {self._limits.stall_s:g} s"),
                reset=True,
            )
        else:
            self._pump()

    # the client's side (asyncio.BufferedProtocol)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._local = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._hooks.start(self)
        self._flush()
        if self._link is not None:
            self._link.read(True)
        self._task = self._loop.create_task(self._run())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (asyncio's signature)
        """Where the client's next bytes go; shared, and free again after `buffer_updated`."""
        return self._dialer.rooms.incoming

    def buffer_updated(self, nbytes: int) -> None:
        """The client sent something."""
        self._answered = False
        self._last_data_at = self._loop.time()
        self.session.offer(self._dialer.rooms.incoming[:nbytes])
        self._pump()

    def eof_received(self) -> bool:
        """The client closed its side, or is gone. The protocol has no half-close: the answer is still delivered."""
        if self._eof_task is None and not self._over:
            self._eof_task = self._loop.create_task(self._after_eof())
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's signature)
        """The client's socket is closed: by it, or by us."""
        self._local = None
        self._left()
        self._finish(None)

    def pause_writing(self) -> None:
        """The client reads slower than the relay sends."""
        self._local_full = True
        if self._link is not None:
            self._link.read(False)

    def resume_writing(self) -> None:
        """The client caught up."""
        self._local_full = False
        if self._link is not None:
            self._link.read(True)

    async def _after_eof(self) -> None:
        """Deliver what the client sent; then end if it is gone, or wait for the answer if it only closed its side."""
        acked = -1
        while self.session.unacked and self.session.acked != acked:  # as long as acknowledgements come
            acked = self.session.acked
            self._drained = self._loop.create_future()
            await asyncio.wait((self._drained,), timeout=self._limits.linger_s)
        if self._hooks.lull is not None:
            return await self._after_stdin(self._hooks.lull)
        while not self._over and self._local is not None:
            gone = peer.is_gone(self._local)
            idle = self._loop.time() - self._last_data_at
            if gone or (gone is None and self._answered and idle > _ANSWERED_S):
                self._left()
                return self._finish(None, reset=True)
            if idle > self._limits.half_closed_s and not self._local_full:
                return self._finish(TunnelFailure(codes.HALF_CLOSED, f"{idle:.0f} s without data"), reset=True)
            await asyncio.sleep(_LOOK_S)

    async def _after_stdin(self, tell: Callable[[Connection], None]) -> None:
        """Over stdin: write what still comes. Silence ends it too, cleanly unless an answer was asked for and none has come."""
        told = False
        while not self._over and self._local is not None:
            if peer.is_gone(self._local):
                return self._finish(None, reset=True)
            if self.session.state is not State.READY or self._local_full:  # no silence of the machine's
                self._last_data_at = self._loop.time()
            idle = self._loop.time() - self._last_data_at
            if idle > (self._limits.half_closed_s if self.session.offered else self._limits.lull_s):
                silence, answered = f"{idle:.0f} s without data", self._answered or not self.session.offered
                failure = None if answered else TunnelFailure(codes.NO_ANSWER, silence)
                return self._finish(failure, reset=not answered, why=f"stdin had ended, then {silence}")
            if idle > self._limits.lull_s and not told:
                told = True
                tell(self)
            await asyncio.sleep(_LOOK_S)

    def _left(self) -> None:
        """The client has gone: if it did so while a link was being opened, that is trouble which nothing else tells."""
        waited = self._loop.time() - self._barren_since
        if not self._over and self.session.state is not State.READY and waited > _PATIENCE_S:
            self._hooks.trouble(self, TunnelFailure(codes.UNKNOWN, f"a client left after {waited:.0f} s without a link"))


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
