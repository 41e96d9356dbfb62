"""A listening port whose connections go through the relay: bind, check, listen, watch."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from flexserve.tunnel import listener
from flexserve.tunnel.apart import apart
from flexserve.tunnel.ends import Ends
from flexserve.tunnel.events import Event, Stats, end_of
from flexserve.tunnel.iap import auth, proxy, urls
from flexserve.tunnel.iap.codes import After, TunnelFailure
from flexserve.tunnel.iap.connection import Connection
from flexserve.tunnel.iap.hooks import Ended, Hooks
from flexserve.tunnel.iap.transport import Dialer
from flexserve.tunnel.iap.trust import trust
from flexserve.tunnel.options import Options, Tunnel
from flexserve.tunnel.reach import Reach
from infra.access import Iap
from verdict.errors import FlexserveError

_RETRY_S = 1.0  # between two checks while nothing listens yet
_SLEPT_S = 10.0  # the wall clock ran this much further than the process: the machine slept
_PASSING_S = 10.0  # a broken link is tried again this long at the start even without `wait`


@asynccontextmanager
async def open_iap(access: Iap, options: Options) -> AsyncIterator[Tunnel]:
    """See `flexserve.tunnel.dial.open_tunnel`."""
    sock = listener.bind(options.port)
    try:
        tunnel = IapTunnel(access, options, sock)
        await tunnel.check()
        await tunnel.start()
    except BaseException:
        sock.close()
        raise
    try:
        async with tunnel.ends.watched(tunnel.fail):
            yield tunnel
    finally:
        await tunnel.stop()


class IapTunnel(Tunnel):
    """The tunnel's owner of connections; see `Tunnel` for what callers use."""

    def __init__(self, access: Iap, options: Options, sock: socket.socket | None) -> None:
        super().__init__(port=sock.getsockname()[1] if sock else 0)
        self._access, self._options, self._sock = access, options, sock
        self.ends = Ends(options)
        self._reach = Reach(options.on_event)
        root = urls.relay_root(options.url)
        chosen = proxy.checked(options.proxy) if options.proxy else proxy.proxy_for(root)
        self._dialer = Dialer(
            access,
            root=root,
            token=auth.source_of(options.token),
            context=trust(options.ssl),
            proxy=chosen,
            named=urls.named(root, options.url),
            limits=options.limits,
        )
        self._server: asyncio.Server | None = None
        self._spare: Connection | None = None
        self._live: set[Connection] = set()
        self._done = Stats()
        self._watcher: asyncio.Task[None] | None = None
        self._spare_timer: asyncio.TimerHandle | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._examining: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Open a session; it becomes the first client's. Retries for `wait_s` while nothing listens."""
        started = time.monotonic()
        while True:
            spare = self._new()
            try:
                await spare.open()
            except TunnelFailure as failure:
                spent = time.monotonic() - started
                limit = self._options.wait_s
                if failure.ending.after in (After.RESUME, After.RESUME_FRESH_TOKEN):
                    limit = max(limit, _PASSING_S)
                elif failure.ending.code != 4003:
                    limit = 0.0
                if spent >= limit:
                    raise await self._verdict(failure) from None
                self._tell("waiting", cause=failure.ending.name, phase=await self._phase(), seconds=round(spent, 1))
                await asyncio.sleep(min(_RETRY_S, max(limit - spent, 0.05)))
            else:
                self._keep(spare)
                return

    async def start(self) -> None:
        """Accept clients."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, sock=cast(socket.socket, self._sock))
        self._watcher = loop.create_task(self._watch_clock())
        self._tell("listening", port=self.port, base_url=self.base_url)

    async def serve_socket(self, sock: socket.socket) -> None:
        """One session over a connected socket (`--on-stdin`); returns when it is over. Raises its cause otherwise."""
        over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

        def ended(connection: Connection, how: Ended) -> None:
            self._ended(connection, how)
            if not over.done():
                over.set_result(how)

        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self._new(end=ended, lull=self._lingers), sock)
        await asyncio.wait((over, self.over), return_when=asyncio.FIRST_COMPLETED)
        if self.over.done():  # the machine has gone, and the connection does not know it
            raise self.over.result()
        if (failure := over.result().failure) is not None:
            raise await self._verdict(failure)

    async def stop(self) -> None:
        """Stop listening and end every connection; returns when the links had their time to close."""
        tasks = [task for task in (self._watcher, self._examining) if task is not None]
        for task in tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        if self._preparing is not None:
            self._preparing.cancel()
        self._drop_spare()
        for connection in list(self._live):
            connection.discard()
        await asyncio.gather(*tasks, *([self._preparing] if self._preparing is not None else []), return_exceptions=True)
        await self._dialer.closed()
        self._tell("stopped", **_fields(self.stats()))

    def stats(self) -> Stats:
        """Sums over the connections that ended and those that live."""
        live = self._live
        return Stats(
            connections=self._done.connections,
            open=len(live),
            bytes_up=self._done.bytes_up + sum(one.session.offered for one in live),
            bytes_down=self._done.bytes_down + sum(one.session.received for one in live),
            resumes=self._done.resumes + sum(one.resumes for one in live),
            resets=self._done.resets,
        )

    def _accept(self) -> Connection:
        spare, self._spare = self._spare, None
        if self._options.ahead and (self._preparing is None or self._preparing.done()):
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())
        if spare is not None and spare.usable:
            return spare
        if spare is not None:
            spare.discard()
        return self._new()

    async def _prepare(self) -> None:
        """Open the next client's session while this one's is in use: four or more round trips that it need not wait for."""
        spare = self._new()
        with contextlib.suppress(TunnelFailure, FlexserveError):  # the next client opens its own, and is told
            await spare.open()
            self._keep(spare)

    def _keep(self, spare: Connection) -> None:
        """A session without a client yet; let go after a while, as a server may time out a silent connection."""
        if self._spare is not None:
            self._spare.discard()
        self._spare = spare
        if self._spare_timer is not None:
            self._spare_timer.cancel()
        self._spare_timer = asyncio.get_running_loop().call_later(self._options.limits.spare_s, self._drop_spare)

    def _new(self, **more: Any) -> Connection:
        """A connection that reports here; `more`: hooks that differ."""
        mine = {"start": self._started, "resume": self._resumed, "trouble": self._troubled, "link": self._reach.found}
        return Connection(self._dialer, Hooks(**{**mine, "end": self._ended, **more}))

    def _drop_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.discard()

    def _started(self, connection: Connection) -> None:
        done = self._done
        self._done = Stats(done.connections + 1, 0, done.bytes_up, done.bytes_down, done.resumes, done.resets)
        connection.number, connection.started_at = self._done.connections, time.monotonic()
        self._live.add(connection)
        self._tell("opened", connection=connection.number)

    def _resumed(self, connection: Connection, failure: TunnelFailure) -> None:
        self._tell("resumed", connection=connection.number, cause=failure.ending.name, code=failure.code, detail=failure.detail)

    def _lingers(self, connection: Connection) -> None:
        self._tell("lingering", connection=connection.number, seconds=self._options.limits.half_closed_s)

    def _troubled(self, connection: Connection, failure: TunnelFailure) -> None:
        error = failure.error(self._access, auth.member())
        self._reach.lost(
            failure.ending.name,
            error.what,
            connection=connection.number,
            code=failure.code,
            detail=failure.detail,
            way_out=error.way_out,
        )

    def _ended(self, connection: Connection, how: Ended) -> None:
        if connection not in self._live:
            return
        self._live.discard(connection)
        session, done = connection.session, self._done
        self._done = Stats(
            done.connections,
            0,
            done.bytes_up + session.offered,
            done.bytes_down + session.received,
            done.resumes + how.resumes,
            done.resets + (how.failure is not None),
        )
        counted = {
            "connection": connection.number,
            "bytes_up": session.offered,
            "bytes_down": session.received,
            "seconds": round(time.monotonic() - connection.started_at, 3),
            "resumes": how.resumes,
        }
        if how.failure is None:
            self._tell("closed", **counted, why=how.why)
            return
        why = how.failure.sentence(self._access, auth.member())
        self._tell("reset", **counted, cause=how.failure.ending.name, code=how.failure.code, why=why, detail=how.failure.detail)
        if self._examining is None or self._examining.done():
            self._examining = asyncio.get_running_loop().create_task(self._examine(how.failure))

    async def _examine(self, failure: TunnelFailure) -> None:
        """A connection failed: is that the tunnel's end? Expired, or a cause that every other connection will meet."""
        expired = await self.ends.gone()
        if expired is not None:
            self.fail(expired)
        elif failure.ending.after is After.STOP:
            self.fail(failure.error(self._access, auth.member()))

    async def _watch_clock(self) -> None:
        """Notice that this machine slept: every link is probably dead, and none knows it."""
        loop = asyncio.get_running_loop()
        while True:
            wall, own = time.time(), loop.time()
            await asyncio.sleep(self._options.limits.look_s)
            if (time.time() - wall) - (loop.time() - own) > _SLEPT_S:
                for connection in list(self._live):
                    connection.poke()

    def fail(self, error: FlexserveError) -> None:
        """End the tunnel for good."""
        if not self.over.done():
            if self._options.on_event is not None:
                self._options.on_event(end_of(error))
            self.over.set_result(error)

    async def _verdict(self, failure: TunnelFailure) -> FlexserveError:
        expired = await self.ends.gone(self._options.limits.hint_s)
        if expired is not None:
            return expired
        error = failure.error(self._access, auth.member())
        phase = await self._phase() if failure.ending.code == 4003 else ""
        if phase:
            error.why = f"the machine is in phase {phase}" + (f"; {error.why}" if error.why else "")
        return self.ends.explained(error)

    async def _phase(self) -> str:
        if self._options.boot_phase is None:
            return ""
        with contextlib.suppress(Exception):  # a hint only
            async with asyncio.timeout(self._options.limits.hint_s):
                return await apart(self._options.boot_phase) or ""
        return ""

    def _tell(self, kind: str, **fields: object) -> None:
        if self._options.on_event is not None:
            self._options.on_event(Event(kind, {name: value for name, value in fields.items() if value not in ("", None)}))


def _fields(stats: Stats) -> dict[str, object]:
    return {
        "connections": stats.connections,
        "bytes_up": stats.bytes_up,
        "bytes_down": stats.bytes_down,
        "resets": stats.resets,
    }
