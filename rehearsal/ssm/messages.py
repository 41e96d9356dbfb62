"""The binary messages of a data channel, big-endian: a header of 116 bytes, the payload's length, the payload.

Source: what AWS's session-manager-plugin reads and writes; it refuses a message whose digest is wrong.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
import uuid
from dataclasses import dataclass, field
from enum import IntEnum

_HEADER = struct.Struct(">I32sIQqQ16s32sI")  # length, type, version, created (ms), sequence, flags, id, digest, payload type
_LENGTH = struct.Struct(">I")
INPUT, OUTPUT, ACKNOWLEDGE, CLOSED = "input_stream_data", "output_stream_data", "acknowledge", "channel_closed"


class Payload(IntEnum):
    """What a stream message carries."""

    DATA = 1
    HANDSHAKE_REQUEST = 5
    HANDSHAKE_RESPONSE = 6
    HANDSHAKE_COMPLETE = 7
    FLAG = 10


class Flag(IntEnum):
    """A message of `Payload.FLAG`, as a u32."""

    DISCONNECT = 1
    TERMINATE = 2
    NO_CONNECTION = 3


class BadMessage(ValueError):
    """Not a message of a data channel."""


@dataclass(frozen=True)
class Message:
    """One message. `sequence` counts a direction's stream messages from 0."""

    kind: str
    payload: bytes
    sequence: int = 0
    payload_type: int = 0
    ident: uuid.UUID = field(default_factory=uuid.uuid4)

    def encode(self) -> bytes:
        """As it is sent."""
        low_half_first = self.ident.bytes[8:] + self.ident.bytes[:8]
        head = _HEADER.pack(
            _HEADER.size, self.kind.encode().ljust(32), 1, int(time.time() * 1000), self.sequence, 0, low_half_first,
            hashlib.sha256(self.payload).digest(), self.payload_type,
        )  # fmt: skip
        return b"".join((head, _LENGTH.pack(len(self.payload)), self.payload))


def decode(raw: bytes) -> Message:
    """Read one message. Raises `BadMessage` when a length or the digest does not fit."""
    start = _HEADER.size + _LENGTH.size
    if len(raw) < start:
        raise BadMessage(f"a message of {len(raw)} bytes")
    size, kind, _, _, sequence, _, ident, digest, payload_type = _HEADER.unpack_from(raw)
    (length,) = _LENGTH.unpack_from(raw, _HEADER.size)
    payload = raw[start:]
    if size != _HEADER.size or length != len(payload) or hashlib.sha256(payload).digest() != digest:
        raise BadMessage("a length or the digest is wrong")
    return Message(
        kind.rstrip(b" \0").decode("ascii", "replace"), payload, sequence, payload_type, uuid.UUID(bytes=ident[8:] + ident[:8])
    )


def acknowledgement(of: Message) -> Message:
    """What the receiver of a stream message answers."""
    content = {
        "AcknowledgedMessageType": of.kind,
        "AcknowledgedMessageId": str(of.ident),
        "AcknowledgedMessageSequenceNumber": of.sequence,
        "IsSequentialMessage": True,
    }
    return Message(ACKNOWLEDGE, json.dumps(content).encode())


def closed(session: str, why: str) -> Message:
    """The service's last word: the plugin ends."""
    content = {"MessageType": CLOSED, "SessionId": session, "SchemaVersion": 1, "Output": why}
    return Message(CLOSED, json.dumps(content).encode())
