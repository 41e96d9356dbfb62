"""smux, version 1: many streams over one byte stream, as the plugin multiplexes its clients. No I/O here.

A frame is version, command, u16 length, u32 stream (all little-endian), then the data. Source: the frames that the plugin sends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

_HEADER = struct.Struct("<BBHI")
_VERSION = 1
MAX_DATA = 32_768  # bytes in a frame; the plugin takes up to 65,535


class Command(IntEnum):
    """What a frame does to its stream."""

    OPEN = 0
    CLOSE = 1
    DATA = 2
    NOTHING = 3


class BadFrame(ValueError):
    """Not a frame of smux, version 1."""


def frame(command: Command, stream: int, data: bytes = b"") -> bytes:
    """One frame."""
    return _HEADER.pack(_VERSION, command, len(data), stream) + data


class Reader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Command, int, bytes]]:
        """Command, stream and data of each frame that is whole now. Raises `BadFrame`."""
        self._rest += data
        while len(self._rest) >= _HEADER.size:
            version, command, length, stream = _HEADER.unpack_from(self._rest)
            if version != _VERSION or command not in tuple(Command):
                raise BadFrame(f"version {version}, command {command}")
            end = _HEADER.size + length
            if len(self._rest) < end:
                return
            payload = bytes(self._rest[_HEADER.size : end])
            del self._rest[:end]
            yield Command(command), stream, payload
