"""The relay's messages: a big-endian u16 tag, then the body. One message is one binary WebSocket message.

Source: the public clients of the relay (Google's IAP Desktop, `gcloud compute start-iap-tunnel`) and Chrome's
"SSH Relay v4" document, from which the protocol descends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

MAX_DATA = 16_384  # bytes of payload that the protocol allows in a DATA message; larger ones are accepted
SENT_DATA = MAX_DATA - 14  # that we send: with its own six bytes and the WebSocket's eight it is one TLS record, not two
MAX_MESSAGE = 1 << 20  # bytes; a longer message is refused
MAX_SID = 4_096  # bytes

_DATA_HEADER = struct.Struct(">HI")
DATA_HEADER_SIZE = _DATA_HEADER.size
data_header = _DATA_HEADER.unpack_from
"""Tag and length at the start of a message of at least `DATA_HEADER_SIZE` bytes; the length means something with `Tag.DATA`."""
_COUNTER = struct.Struct(">HQ")
_TAG = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")


class Tag(IntEnum):
    """What a message is."""

    CONNECTED = 1  # relay: a new session, its id follows
    RESUMED = 2  # relay: the session goes on, the bytes it has of ours follow
    DATA = 4
    ACK = 7


_FULL_HEADER = _DATA_HEADER.pack(Tag.DATA, SENT_DATA)


class BadFrame(ValueError):
    """The other side broke the protocol; the connection cannot be trusted any more."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message other than DATA or of no known tag. `number`: counter of RESUMED and ACK; `sid`: id of CONNECTED."""

    tag: int
    number: int = 0
    sid: str = ""


def data(payload: bytes | memoryview) -> bytes:
    """A DATA message; at most `MAX_DATA` bytes of payload."""
    return b"".join((_DATA_HEADER.pack(Tag.DATA, len(payload)), payload))


def cut(chunk: memoryview) -> Iterator[bytes]:
    """`chunk` as DATA messages of at most `SENT_DATA` bytes; copied."""
    whole = len(chunk) - len(chunk) % SENT_DATA
    for start in range(0, whole, SENT_DATA):
        yield b"".join((_FULL_HEADER, chunk[start : start + SENT_DATA]))
    if whole < len(chunk):
        yield data(chunk[whole:])


def ack(received: int) -> bytes:
    """An ACK for all bytes received since the session began."""
    return _COUNTER.pack(Tag.ACK, received)


def connected(sid: str) -> bytes:
    """The relay's first message on a new session."""
    raw = sid.encode("ascii")
    return b"".join((_DATA_HEADER.pack(Tag.CONNECTED, len(raw)), raw))


def resumed(received: int) -> bytes:
    """The relay's first message on a resumed session."""
    return _COUNTER.pack(Tag.RESUMED, received)


def parse(message: memoryview) -> Message:
    """Read a message that is not whole DATA. Unknown tags are legal. Raises `BadFrame` for a body that is too short."""
    if len(message) < 2:
        raise BadFrame("a message without a tag")
    (tag,) = _TAG.unpack_from(message)
    if tag in (Tag.RESUMED, Tag.ACK):
        if len(message) < _COUNTER.size:
            raise BadFrame(f"a message of tag {tag} without its counter")
        return Message(tag, number=_U64.unpack_from(message, 2)[0])
    if tag == Tag.DATA:
        raise BadFrame("a message without its length")
    if tag == Tag.CONNECTED:
        return Message(tag, sid=_sid(bytes(_body(message))))
    return Message(tag)


def _body(message: memoryview) -> memoryview:
    if len(message) < _DATA_HEADER.size:
        raise BadFrame("a message without its length")
    (length,) = _U32.unpack_from(message, 2)
    if length > len(message) - _DATA_HEADER.size:
        raise BadFrame(f"a message that declares {length} bytes and holds {len(message) - _DATA_HEADER.size}")
    return message[_DATA_HEADER.size : _DATA_HEADER.size + length]


def _sid(raw: bytes) -> str:
    if not 0 < len(raw) <= MAX_SID or not all(0x20 <= byte < 0x7F for byte in raw):
        raise BadFrame("a session id that is empty, too long or not printable")
    return raw.decode("ascii")
