"""What a child says on a pipe of ours, so that it can be read at once when it matters and not a turn of the loop later."""

from __future__ import annotations

import asyncio
import os

_KEPT = 8192  # bytes


class Said:
    """Hand `writer` to the child as its output, then call `given`. `text`: the last it said; `ended`: it closed its output."""

    def __init__(self) -> None:
        self.text = b""
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self.read)

    def given(self) -> None:
        """The child has its end: ours is closed, so that its end is the pipe's."""
        os.close(self.writer)

    def read(self) -> None:
        """Take what there is now. Never blocks."""
        while not self.ended:
            try:
                part = os.read(self._reader, 65_536)
            except BlockingIOError:
                return
            self.text = (self.text + part)[-_KEPT:]
            if not part:
                self.close()
            self._more.set()

    async def until(self, words: bytes) -> bool:
        """Whether it says them before it closes its output. What came before them is dropped."""
        while words not in self.text:
            if self.ended:
                return False
            self._more.clear()
            await self._more.wait()
        self.text = self.text.partition(words)[2]
        return True

    def close(self) -> None:
        """Read no more. Safe to call twice."""
        if not self.ended:
            self.ended = True
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
