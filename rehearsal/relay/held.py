"""Messages that are held on their way, in order: a delay and stalls, for one direction of one session."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable


class Held:
    """Passes calls on after `hold_s`, a `stall_share` of them after `stall_s` more; nothing overtakes."""

    def __init__(self, hold_s: float, stall_s: float, stall_share: float, chance: random.Random) -> None:
        self._hold_s, self._stall_s, self._stall_share, self._chance = hold_s, stall_s, stall_share, chance
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, call: Callable[[], None]) -> None:
        """Call `call` when its time has come and all before it were called."""
        due = self._loop.time() + self._hold_s
        if self._stall_share and self._chance.random() < self._stall_share:
            due += self._stall_s
        self._last = max(due, self._last)
        self._queue.append((self._last, call))
        if self._timer is None:
            self._timer = self._loop.call_at(self._last, self._release)

    def clear(self) -> None:
        """Forget what is on its way (the link broke)."""
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        self._timer = None
        now = self._loop.time() + 0.0002  # what is due within the timer's own resolution goes out together
        while self._queue and self._queue[0][0] <= now:
            self._queue.popleft()[1]()
        if self._queue and self._timer is None:
            self._timer = self._loop.call_at(self._queue[0][0], self._release)
