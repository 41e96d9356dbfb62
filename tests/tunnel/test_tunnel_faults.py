"""Every way the relay may fail, by name, through the whole client: all bytes, or a reset with its cause."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from flexserve.tunnel.dial import open_tunnel
from tests.tunnel.backend import stream
from tests.tunnel.conftest import PATIENT
from verdict.errors import FlexserveError

pytestmark = pytest.mark.anyio
SIZE = 3_000_000
SURVIVED = [
    "vm", "vm-dropdn1000000", "vm-dropup1000000", "vm-findn1000000", "vm-finup1000000", "vm-cl4004dn1000000",
    "vm-cl4004up1000000", "vm-cl1001dn1000000", "vm-cl1001up1000000", "vm-cl4000dn1000000", "vm-cl4000up1000000",
    "vm-every700000", "vm-trailing", "vm-unknowntags", "vm-large", "vm-ping", "vm-hold5-stall20p50",
    "vm-dropdn1-dropup1", "vm-dropdn3000000",
]  # fmt: skip
FINAL = {
    "vm-cl4010dn1000000": "read-failed",
    "vm-cl4074dn1000000": "cannot-rewind",
    "vm-cl4033dn1000000": "not-authorised",
    "vm-dropdn1000000-forget": "session-unknown",
}
GARBAGE = ["noise", "text", "oversize", "short", "badack", "secondsid", "masked"]


async def ask(port: int, command: str, upload: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(command.encode() + b"\n" + upload)
        await writer.drain()
        return await reader.read(64) if upload else await reader.read(-1)
    finally:
        writer.close()


@pytest.mark.parametrize("instance", SURVIVED)
async def test_every_byte_arrives_both_ways(world, instance) -> None:
    async with open_tunnel(world.access(instance), options=world.options(limits=PATIENT)) as tunnel:
        assert await ask(tunnel.port, f"send {SIZE}") == stream(SIZE)
        upload = stream(SIZE, 7)
        assert (await ask(tunnel.port, f"sink {SIZE}", upload)).decode() == hashlib.sha256(upload).hexdigest()
    broke = any(word in instance for word in ("drop", "fin", "cl", "every"))
    assert (world.last("stopped")["resets"], "resumed" in world.kinds()) == (0, broke)


@pytest.mark.parametrize(("instance", "cause"), FINAL.items())
async def test_a_final_end_resets_the_client_with_its_cause(world, instance, cause) -> None:
    async with open_tunnel(world.access(instance), options=world.options()) as tunnel:
        with pytest.raises(ConnectionResetError):
            await ask(tunnel.port, f"send {SIZE}")
    assert world.last("reset")["cause"] == cause
    assert world.last("reset")["why"]


@pytest.mark.parametrize("kind", GARBAGE)
async def test_garbage_ends_in_a_reset(world, kind) -> None:
    """It comes right after the confirmation: the check meets it, or the client does, with one and the same cause."""
    try:
        async with open_tunnel(world.access(f"vm-garbage{kind}"), options=world.options()) as tunnel:
            with pytest.raises(ConnectionResetError):
                async with asyncio.timeout(10):
                    await ask(tunnel.port, f"send {SIZE}")
    except FlexserveError as refused:
        assert refused.what == "the relay broke the protocol"
    else:
        assert world.last("reset")["cause"] == "protocol"
