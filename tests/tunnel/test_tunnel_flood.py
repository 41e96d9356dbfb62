"""A relay that sends for ever what no client gets, and reads nothing: the tunnel's memory stays bounded."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flexserve.tunnel.dial import open_tunnel
from flexserve.tunnel.options import Options
from infra.access import Iap
from tests.tunnel.conftest import LIMIT_S, SHORT
from tests.tunnel.test_tunnel_fuzz import certificates, data, frame, greeted  # noqa: F401 - the first is a fixture

pytestmark = pytest.mark.anyio

FLOOD = 48_000_000
MOST = 16_000_000
BLOCKS = {
    "pings": frame(b"x" * 120, 9) * 400,
    "pongs": frame(b"x" * 120, 10) * 400,
    "unknown tags": frame(struct.pack(">H", 77) + b"y" * 4_000) * 12,
    "data without bytes": frame(struct.pack(">HI", 4, 0)) * 400,
    "fragments": frame(data(b"z" * 4_000)[:3_900], fin=False) * 12,
}


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells")
@pytest.mark.parametrize("what", BLOCKS)
async def test_a_flood_costs_no_memory(certificates, what) -> None:  # noqa: F811
    trust, context = certificates
    sent, over = 0, asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with suppress(OSError, asyncio.IncompleteReadError):
            if await greeted(reader, writer):
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # an answer to each of these would pile up
                while sent < (FLOOD if what != "data without bytes" else FLOOD // 20):
                    writer.write(BLOCKS[what])
                    sent += len(BLOCKS[what])
                    await writer.drain()
        over.set()
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0, ssl=context)
    url = f"wss://localhost:{server.sockets[0].getsockname()[1]}/v4"
    before, most = resident(), 0
    options = Options(token="t", url=url, ssl=trust, limits=replace(SHORT, resume_s=0.3))
    async with open_tunnel(Iap("p", "z", "vm"), options=options) as tunnel, asyncio.timeout(LIMIT_S):
        _, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
        writer.write(b"go")
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.02)
            most = max(most, resident() - before)
        writer.close()
    server.close()
    assert sent and most < MOST
