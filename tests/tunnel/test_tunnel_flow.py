"""Half-close, back-pressure, memory, tokens, proxies: how a connection lives."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
import time
from dataclasses import replace

import pytest

from flexserve.tunnel import peer
from flexserve.tunnel.dial import open_tunnel
from flexserve.tunnel.iap import codes, frames
from flexserve.tunnel.iap.codes import TunnelFailure
from flexserve.tunnel.iap.connection import Connection
from flexserve.tunnel.iap.rooms import Rooms
from flexserve.tunnel.iap.tunnel import IapTunnel
from flexserve.tunnel.limits import MIB
from rehearsal.relay import Relay
from tests.tunnel.backend import stream
from tests.tunnel.conftest import PATIENT, SHORT, until

pytestmark = pytest.mark.anyio


def rss() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_half_closed_client_gets_its_whole_answer(world) -> None:
    async with open_tunnel(world.access(), options=world.options(limits=PATIENT)) as tunnel:
        for command, size in (("send 3000000", 3_000_000), ("late 1000 400", 1000)):
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
            writer.write(command.encode() + b"\n")
            writer.write_eof()
            assert await reader.read(-1) == stream(size)
            writer.close()


async def test_a_half_closed_client_without_an_answer_is_reset_not_ended(world) -> None:
    async with open_tunnel(world.access(), options=world.options()) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"echo\n")
        writer.write_eof()
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
    assert world.last("reset")["cause"] == "half-closed"


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="Linux tells")  # noqa: PTH110
async def test_a_client_that_is_gone_is_told_from_one_that_half_closed(world) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    accepted, address = server.accept()
    ends = (address, server.getsockname())
    assert peer.client_is_gone(*ends) is False
    client.shutdown(socket.SHUT_WR)
    assert peer.client_is_gone(*ends) is False
    client.close()
    assert peer.client_is_gone(*ends) is True
    accepted.close()
    server.close()


def test_a_socket_pair_tells_too() -> None:
    ours, theirs = socket.socketpair()
    assert not peer.pair_is_gone(ours.fileno())
    theirs.shutdown(socket.SHUT_WR)
    assert not peer.pair_is_gone(ours.fileno())
    theirs.shutdown(socket.SHUT_RDWR)
    assert peer.pair_is_gone(ours.fileno())
    ours.close()
    theirs.close()


async def test_a_client_that_goes_leaves_no_connection_behind(world) -> None:
    """HTTP clients close after each answer: what they leave must not pile up on the machine."""
    async with open_tunnel(world.access(), options=world.options(limits=PATIENT)) as tunnel:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
            writer.write(b"echo\nhello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
        assert await until(lambda: tunnel.stats().open == 0)
        assert await until(lambda: world.relay.sessions == 0)
        assert await until(lambda: world.backend.open == 0)
    assert tunnel.stats().connections == 20
    assert tunnel.stats().resets == 0


async def test_what_a_client_sent_before_it_went_still_arrives(world) -> None:
    before = world.backend.connections
    async with open_tunnel(world.access("vm-dropup400000"), options=world.options(ahead=False)) as tunnel:
        _, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"sink 1000000\n" + stream(1_000_000))
        await writer.drain()
        writer.close()
        assert await until(lambda: tunnel.stats().connections == 1 and tunnel.stats().open == 0)
    assert world.backend.connections == before + 1
    assert world.last("closed")["bytes_up"] == 1_000_013


async def test_the_checks_session_is_the_first_connections(world) -> None:
    before = world.backend.connections
    async with open_tunnel(world.access(), options=world.options(ahead=False)) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"echo\nhello")
        assert await reader.readexactly(5) == b"hello"
        assert world.backend.connections == before + 1
        writer.close()


async def test_the_next_clients_session_is_open_before_it_comes(world) -> None:
    before = len(world.relay.requests)
    async with open_tunnel(world.access(), options=world.options(limits=PATIENT)) as tunnel:
        for number in range(1, 4):
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
            writer.write(b"echo\nhello")
            assert await reader.readexactly(5) == b"hello"
            assert await until(lambda number=number: len(world.relay.requests) - before == number + 1 and tunnel._spare is not None)
            writer.close()
    assert await until(lambda: world.relay.sessions == 0)


async def test_an_opening_that_is_cancelled_leaves_no_session(world) -> None:
    with Relay(world.backend.connect, keep_s=300) as relay:  # a session that just broke would stay this long
        options = replace(world.options(), url=relay.url, ssl=ssl.create_default_context(cafile=str(relay.ca_file)))
        async with open_tunnel(world.access(), options=options) as tunnel:
            for pause in (0.0, 0.002, 0.005, 0.01, 0.02):
                task = asyncio.ensure_future(tunnel._new().open())
                await asyncio.sleep(pause)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await until(lambda: relay.sessions == 0)


async def test_a_session_ahead_that_broke_is_not_used(world) -> None:
    async with open_tunnel(world.access(), options=world.options()) as tunnel:
        tunnel._spare.poke()
        assert await until(lambda: not tunnel._spare.usable)
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"echo\nhello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()


async def test_an_unused_session_of_the_check_is_let_go(world) -> None:
    options = world.options(limits=replace(SHORT, spare_s=0.1))
    async with open_tunnel(world.access(), options=options) as tunnel:
        assert await until(lambda: world.backend.open == 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"echo\nhello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()


async def test_a_client_that_stops_reading_costs_no_memory_and_loses_nothing(world) -> None:
    size = 24 * MIB
    async with open_tunnel(world.access(), options=world.options(limits=PATIENT)) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port, limit=65_536)
        writer.write(f"send {size}\n".encode())
        await asyncio.sleep(0.5)
        assert tunnel.stats().bytes_down < 8 * MIB  # the rest waits with the relay: kernel buffers and a little of ours
        assert await reader.read(-1) == stream(size)
        writer.close()


async def test_a_machine_that_stops_reading_costs_no_memory_and_loses_nothing(world) -> None:
    size = 24 * MIB
    upload = stream(size)
    async with open_tunnel(world.access(), options=world.options(limits=PATIENT)) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(f"slow {size} 3000\n".encode() + upload)
        await asyncio.sleep(0.4)
        assert tunnel.stats().bytes_up < 20 * MIB
        assert (await reader.read(64)).decode() == hashlib.sha256(upload).hexdigest()
        writer.close()


async def test_a_relay_that_never_acknowledges_meets_bounded_memory_and_an_end(world) -> None:
    limits = replace(SHORT, unacked=4 * MIB)
    async with open_tunnel(world.access("vm-noack"), options=world.options(limits=limits)) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        before = rss()
        writer.write(b"sink 40000000\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for start in range(0, 40_000_000, MIB):
                writer.write(stream(MIB, start))
                await writer.drain()
            await reader.read(64)
        assert rss() - before < 24 * MIB  # the test's own chunks included
        assert tunnel.stats().bytes_up < 6 * MIB
    assert world.last("reset")["cause"] == "no-acks"


async def test_a_small_upload_needs_no_acknowledgement(world) -> None:
    async with open_tunnel(world.access("vm-noack"), options=world.options()) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        upload = stream(1_000_000)
        writer.write(b"sink 1000000\n" + upload)
        assert (await reader.read(64)).decode() == hashlib.sha256(upload).hexdigest()
        writer.close()


async def test_a_new_token_is_asked_for_when_the_relay_wants_one(world) -> None:
    asked: list[bool] = []

    async def token(fresh: bool) -> str:
        asked.append(fresh)
        return f"token-{len(asked)}"

    before = len(world.relay.requests)
    options = world.options(token=None, ahead=False)
    async with open_tunnel(world.access("vm-cl4004dn1000000"), token=token, options=options) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"send 3000000\n")
        assert await reader.read(-1) == stream(3_000_000)
        writer.close()
    assert asked == [False, True]
    seen = world.relay.requests[before:]
    assert [request.kind for request in seen] == ["connect", "reconnect"]
    assert len({request.token for request in seen}) == 2


async def test_a_refused_token_is_refreshed_once(world) -> None:
    asked: list[bool] = []

    async def token(fresh: bool) -> str:
        asked.append(fresh)
        return "any"

    with pytest.raises(Exception, match="refused the access token"):
        async with open_tunnel(world.access("vm-http401"), token=token, options=world.options(token=None)):
            pass
    assert asked == [False, True]


async def test_a_link_that_never_comes_back_ends_in_a_reset(world) -> None:
    """The relay is gone for good in the middle of a transfer."""
    from rehearsal.relay import Relay

    with Relay(world.backend.connect) as relay:
        import ssl

        context = ssl.create_default_context(cafile=str(relay.ca_file))
        options = replace(world.options(), url=relay.url, ssl=context)
        async with open_tunnel(world.access(), options=options) as tunnel:
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
            writer.write(b"sendkeep 1000\n")
            await reader.readexactly(1000)
            await asyncio.get_running_loop().run_in_executor(None, relay.stop)
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
            writer.close()
    assert world.last("reset")["cause"] == "gave-up"


async def test_through_an_http_proxy(world) -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines.append(head)
        if b"Proxy-Authorization" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", world.relay.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
            sink.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = world.options(proxy=f"http://user:pass@127.0.0.1:{port}")
    async with open_tunnel(world.access(), options=options) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"send 500000\n")
        assert await reader.read(-1) == stream(500_000)
        writer.close()
    assert lines[0].startswith(f"CONNECT localhost:{world.relay.port} HTTP/1.1".encode())
    with pytest.raises(Exception, match="wants a login"):
        async with open_tunnel(world.access(), options=world.options(proxy=f"http://127.0.0.1:{port}")):
            pass
    server.close()


async def test_many_at_once(world) -> None:
    async def one(tunnel, size: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(f"send {size}\n".encode())
        got = await reader.read(-1)
        writer.close()
        return got == stream(size)

    async with open_tunnel(world.access(), options=world.options(limits=PATIENT)) as tunnel:
        assert all(await asyncio.gather(*(one(tunnel, 200_000 + n) for n in range(48))))


async def test_a_machine_that_slept_resumes_at_once(world) -> None:
    async with open_tunnel(world.access(), options=world.options()) as tunnel:
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"echo\nbefore")
        assert await reader.readexactly(6) == b"before"
        for connection in list(tunnel._live):
            connection.poke()
        writer.write(b"after!")
        assert await reader.readexactly(6) == b"after!"
        writer.close()
    assert world.last("resumed")["detail"] == "this machine slept or changed its network"


async def test_an_opening_cancelled_after_the_relay_saw_it_leaves_no_session(world) -> None:
    """In each of the event loop's steps after the request is out; in the first, asyncio would only close the socket."""
    loop = asyncio.get_running_loop()
    with Relay(world.backend.connect, keep_s=300) as relay:  # a session whose socket just ended would stay this long
        options = replace(world.options(), url=relay.url, ssl=ssl.create_default_context(cafile=str(relay.ca_file)))
        tunnel = IapTunnel(world.access(), options, None)
        for steps in range(6):
            connection, seen = tunnel._new(), len(relay.requests)
            opening = asyncio.ensure_future(connection.open())

            def step(left: int, opening=opening, seen=seen) -> None:
                time.sleep(0.004)  # the relay is another thread: it goes on
                left -= len(relay.requests) > seen
                loop.call_soon(step, left) if left >= 0 and not opening.done() else opening.cancel()

            loop.call_soon(step, steps)
            with contextlib.suppress(asyncio.CancelledError):
                await opening
            connection.discard()
        assert len(relay.requests) == 6
        await tunnel.stop()
        assert await until(lambda: relay.sessions == 0), f"{relay.sessions} sessions of {len(relay.requests)} are left"


class HastyLink:
    """A link that takes everything and says nothing by itself."""

    paused = False

    def send(self, message: bytes) -> None: ...

    def read(self, wanted: bool) -> None: ...

    def close(self) -> None: ...

    def drop(self) -> None: ...


class HastyDialer:
    """Its first two links bring their confirmation, some data and their end before `open` returns, as a quick reset does."""

    limits = SHORT
    rooms = Rooms()

    def __init__(self) -> None:
        self.opened = 0

    async def open(self, session, owner, *, fresh_token: bool = False) -> HastyLink:
        link, self.opened = HastyLink(), self.opened + 1
        first = frames.resumed(0) if session.reopen() else frames.connected("sid")
        for message in (first, frames.data(str(self.opened).encode())):
            owner.on_message(memoryview(message), True)
        if self.opened < 3:
            owner.on_ended(link, TunnelFailure(codes.UNKNOWN, "broken"))
        return link


async def test_a_link_that_ends_before_it_is_known_to_be_open_is_resumed(world) -> None:
    ours, theirs = socket.socketpair()
    dialer = HastyDialer()
    loop = asyncio.get_running_loop()
    _, connection = await loop.connect_accepted_socket(lambda: Connection(dialer), ours)
    theirs.setblocking(False)
    got = b""
    async with asyncio.timeout(5):
        while got != b"123":
            got += await loop.sock_recv(theirs, 100)
    assert (dialer.opened, connection.resumes) == (3, 2)
    connection.discard()
    theirs.close()
