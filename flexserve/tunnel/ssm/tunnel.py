"""Our port before the plugin's: bound first, kept over the plugin's restarts, counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from flexserve.tunnel import listener, peer
from flexserve.tunnel.apart import apart
from flexserve.tunnel.ends import Ends, cause_of
from flexserve.tunnel.events import Event, Stats, end_of
from flexserve.tunnel.options import Options, Tunnel
from flexserve.tunnel.ssm import plugin
from infra.access import Ssm
from verdict.errors import FlexserveError, Gone

_CHUNK = 65_536
_APART_S = 0.02  # two writes that the plugin should read as two
_LOOK_S = 0.25  # how often a client that closed its side is looked at


@asynccontextmanager
async def open_ssm(access: Ssm, options: Options) -> AsyncIterator[Tunnel]:
    """See `flexserve.tunnel.dial.open_tunnel`. The session is opened before the block starts."""
    sock = listener.bind(options.port)
    try:
        ssm = await apart(lambda: plugin.client(access, options.url))
        opened = SsmTunnel(sock.getsockname()[1], ssm, access, options)
        try:
            await opened.session()
        except FlexserveError as error:
            if gone := await opened.ends.gone():  # the cloud's word for it says more than that nobody answers
                raise gone from error
            raise opened.ends.explained(error) from error.__cause__
        server = await asyncio.start_server(opened.serve, sock=sock)
    except BaseException:
        sock.close()
        raise
    opened.tell("listening", port=opened.port, base_url=opened.base_url)
    try:
        async with opened.ends.watched(opened.end):
            yield opened
    finally:
        server.close()
        await opened.stop()


class SsmTunnel(Tunnel):
    """The tunnel's owner of the plugin and of the clients."""

    def __init__(self, port: int, ssm: Any, access: Ssm, options: Options) -> None:
        super().__init__(port)
        self._ssm, self._access, self._options = ssm, access, options
        self.ends = Ends(options)
        self._session: plugin.Session | None = None
        self._lock = asyncio.Lock()
        self._count, self._up, self._down, self._resets, self._restarts = 0, 0, 0, 0, 0
        self._open: set[asyncio.Task[Any]] = set()

    async def session(self) -> plugin.Session:
        """The running session, a new one when the last has ended (idle limit, network)."""
        async with self._lock:
            if self._session is None or not self._session.alive:
                if self._session is not None:
                    self._restarts += 1
                    self.tell("resumed", cause="session-ended")
                    await self._session.stop()
                self._session = await plugin.start(self._ssm, self._access)
            return self._session

    def stats(self) -> Stats:
        """Counters so far; `resumes` counts the plugin's restarts."""
        return Stats(self._count, len(self._open), self._up, self._down, self._restarts, self._resets)

    def tell(self, kind: str, **fields: object) -> None:
        """One event."""
        if self._options.on_event is not None:
            self._options.on_event(Event(kind, fields))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, through the plugin's port; a failure is a reset with its cause."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self._count += 1
        number = self._count
        try:
            session = await self.session()
            far_reader, far_writer = await asyncio.open_connection(listener.HOST, session.port)
            sending = asyncio.ensure_future(self._send(reader, far_writer, writer))
            try:
                await self._copy(far_reader, writer, up=False)
                if await session.lost():  # the plugin's end looks like the server's: it must not
                    raise ConnectionResetError("the session ended")
            finally:
                sending.cancel()
                far_writer.close()
        except asyncio.CancelledError:  # the tunnel closes
            peer.reset(writer.transport)
        except (FlexserveError, OSError) as error:
            self._resets += 1
            self.tell("reset", connection=number, cause="session", why=cause_of(error)["why"])
            peer.reset(writer.transport)
            await self._examine()
        finally:
            self._open.discard(task)
            writer.close()

    async def stop(self) -> None:
        """End the clients, then the plugin and the session."""
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        if self._session is not None:
            await self._session.stop()
        self.tell("stopped", connections=self._count, bytes_up=self._up, bytes_down=self._down)

    async def _send(self, source: asyncio.StreamReader, far: asyncio.StreamWriter, client: asyncio.StreamWriter) -> None:
        """What the client sends. The plugin has no half-close.

        So a client that closed its side still gets its answer, and one that is gone ends the connection.
        """
        with contextlib.suppress(OSError):
            await self._copy(source, far, up=True)
        ours, theirs = client.get_extra_info("sockname"), client.get_extra_info("peername")
        deadline = asyncio.get_running_loop().time() + self._options.limits.half_closed_s
        while asyncio.get_running_loop().time() < deadline and peer.client_is_gone(theirs, ours) is False:
            await asyncio.sleep(_LOOK_S)
        far.close()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, up: bool) -> None:
        while data := await source.read(_CHUNK):
            if up and plugin.would_change(data):
                sink.write(data[:-2])
                await asyncio.sleep(_APART_S)
                sink.write(data[-2:])
            else:
                sink.write(data)
            self._up, self._down = self._up + len(data) * up, self._down + len(data) * (not up)
            await sink.drain()

    async def _examine(self) -> None:
        """End the tunnel after a failure if the machine has gone."""
        if not self.over.done() and (gone := await self.ends.gone()):
            self.end(gone)

    def end(self, gone: Gone) -> None:
        """End the tunnel for good."""
        if not self.over.done():
            if self._options.on_event is not None:
                self._options.on_event(end_of(gone))
            self.over.set_result(gone)
