"""Buffers that connections share, one after another."""

from __future__ import annotations

ROOM = 256 * 1024  # bytes gathered from messages at hand before they go to the local socket
_ROOMS = 4  # kept: reads happen one after another


class Rooms:
    """Buffers in which connections gather what one read brought, used again: a new one a read costs more than the copy."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self) -> bytearray:
        """One of `ROOM` bytes; what it holds means nothing."""
        return self._free.pop() if self._free else bytearray(ROOM)

    def give(self, room: bytearray) -> None:
        """Nobody else has it, views included."""
        if len(self._free) < _ROOMS:
            self._free.append(room)
