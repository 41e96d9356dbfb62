"""Buffers that connections share, one after another."""

from __future__ import annotations

ROOM = 272 * 1024  # bytes gathered from messages at hand before they go to the local socket; a whole read fits
READ = 256 * 1024  # bytes that are read from a local socket at once
_ROOMS = 4  # kept: reads happen one after another


class Rooms:
    """Buffers in which connections gather what one read brought, used again: a new one a read costs more than the copy.

    Views and not the arrays: to assign a slice of a `bytearray` copies twice. `incoming` is what every local socket is read
    into: what was read is taken over before the next read. A new object of that size a read costs a mapping in the kernel.
    """

    def __init__(self) -> None:
        self._free: list[memoryview] = []
        self.incoming = memoryview(bytearray(READ))

    def take(self) -> memoryview:
        """One of `ROOM` bytes; what it holds means nothing."""
        return self._free.pop() if self._free else memoryview(bytearray(ROOM))

    def give(self, room: memoryview) -> None:
        """Nobody else has it, views of it included."""
        if len(self._free) < _ROOMS:
            self._free.append(room)
