"""AWS's event stream encoding (`application/vnd.amazon.eventstream`), which botocore only reads."""

from __future__ import annotations

import struct
from binascii import crc32

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_TEXT = 7  # the type of a header whose value is a string


def message(payload: bytes, headers: dict[str, str]) -> bytes:
    """One message: prelude, headers, payload, and a checksum after the prelude and at the end."""
    head = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    start = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return start + struct.pack(">I", crc32(start))


def part(payload: bytes) -> bytes:
    """A `PayloadPart`."""
    return message(payload, {":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"})


def failed(kind: str, body: bytes) -> bytes:
    """An exception of the stream (`ModelStreamError`, `InternalStreamFailure`)."""
    return message(body, {":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"})
