"""A relay that sends anything at all: the client sees a prefix of the true data, and a clean end only of a whole transfer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import random
import ssl
import struct
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from flexserve.tunnel.dial import open_tunnel
from flexserve.tunnel.options import Options
from infra.access import Iap
from rehearsal.relay import tls
from tests.tunnel.backend import stream
from tests.tunnel.conftest import SHORT

pytestmark = pytest.mark.anyio
CASES = 120
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(payload: bytes, opcode: int = 2, fin: bool = True) -> bytes:
    head = bytes([(0x80 if fin else 0) | opcode])
    size = len(payload)
    if size < 126:
        return head + bytes([size]) + payload
    if size < 65_536:
        return head + b"\x7e" + struct.pack(">H", size) + payload
    return head + b"\x7f" + struct.pack(">Q", size) + payload


def data(payload: bytes) -> bytes:
    return frame(struct.pack(">HI", 4, len(payload)) + payload)


@dataclass
class Script:
    """What one relay sends after the confirmation, and what of it is true."""

    wire: bytes = b""
    true: bytes = b""
    whole: bool = False  # ended with 1000 and nothing was wrong before
    broken: bool = field(default=False)

    def add(self, chance: random.Random) -> None:
        kind = chance.choice(["data"] * 8 + ["ping", "pong", "unknown", "trailing", "noise", "text", "frag", "ack", "long", "sid",
                                             "short", "empty", "close", "twice", "rsv"])  # fmt: skip
        payload = stream(chance.choice([0, 1, 100, 16_384, 65_536]), len(self.true))
        good = {
            "data": data(payload),
            "ping": frame(b"hello", 9),
            "pong": frame(b"hello", 10),
            "unknown": frame(struct.pack(">H", chance.choice([0, 3, 10, 77])) + b"any"),
            "trailing": frame(struct.pack(">HI", 4, len(payload)) + payload + b"more"),
        }
        bad = {
            "noise": chance.randbytes(chance.randint(2, 400)),
            "text": frame(b"text", 1),
            "frag": frame(data(payload)[:3], fin=False),
            "ack": frame(struct.pack(">HQ", 7, chance.choice([101, 1 << 40, (1 << 64) - 1]))),
            "long": b"\x82\x7f" + struct.pack(">Q", chance.choice([1 << 21, 1 << 40, 1 << 63])),
            "sid": frame(struct.pack(">HI", 1, 1) + b"x"),
            "short": frame(struct.pack(">HI", 4, 50) + b"short"),
            "empty": frame(b""),
            "close": frame(struct.pack(">H", chance.choice([4010, 4005, 4074])) + b"why", 8),
            "rsv": b"\xf2" + data(payload)[1:],
        }
        if kind == "twice":
            kind, good["twice"] = "data", data(payload)
        if kind in good:
            self.wire += good[kind]
            if kind in ("data", "trailing") and not self.broken:
                self.true += payload
        else:
            self.wire += bad[kind]
            self.broken = True


def script(seed: int) -> Script:
    chance = random.Random(seed)
    made = Script()
    for _ in range(chance.randint(1, 12)):
        made.add(chance)
    if chance.random() < 0.5:
        made.wire += frame(struct.pack(">H", 1000), 8) * chance.choice([1, 2])  # gcloud's twin closes are seen in the wild
        made.whole = not made.broken
    return made


@pytest.fixture(scope="module")
def certificates():
    with tempfile.TemporaryDirectory() as folder:
        ca_file, context = tls.make(Path(folder))
        yield ssl.create_default_context(cafile=str(ca_file)), context


async def greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Open a session and read the client's first bytes; False for one that was to be resumed, which is refused."""
    head = await reader.readuntil(b"\r\n\r\n")
    key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept + b"\r\nSec-WebSocket-Protocol: relay.tunnel.cloudproxy.app\r\n\r\n"
    )  # fmt: skip
    if b"/reconnect?" in head:
        writer.write(frame(struct.pack(">H", 4001), 8))
        return False
    writer.write(frame(struct.pack(">HI", 1, 3) + b"sid"))
    await writer.drain()
    await reader.read(10)  # the client's first bytes: the check is over
    return True


async def serve(wire: bytes, context: ssl.SSLContext) -> asyncio.Server:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if await greeted(reader, writer):
                writer.write(wire)
            await writer.drain()
            writer.close()

    return await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)


@pytest.mark.parametrize("start", range(0, CASES, 20))
async def test_never_a_hang_never_a_clean_end_of_a_cut_transfer(certificates, start) -> None:
    trust, context = certificates
    for seed in range(start, start + 20):
        made = script(seed)
        server = await serve(made.wire, context)
        url = f"wss://localhost:{server.sockets[0].getsockname()[1]}/v4"
        options = Options(token="t", url=url, ssl=trust, limits=replace(SHORT, resume_s=0.3))
        async with open_tunnel(Iap("p", "z", "vm"), options=options) as tunnel, asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
            writer.write(b"go")
            got, clean = bytearray(), False
            try:
                while chunk := await reader.read(65_536):
                    got += chunk
                clean = True
            except ConnectionResetError:
                pass
            writer.close()
        server.close()
        assert made.true.startswith(bytes(got)), seed
        assert not clean or (made.whole and bytes(got) == made.true), seed
        assert clean or not made.whole, seed
