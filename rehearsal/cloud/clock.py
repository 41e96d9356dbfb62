"""The local cloud's time: real time plus an offset that only grows.

Events (an operation that ends, a window that closes) wait in a heap. They run when the clock is turned past them,
and, while `start()`ed, when real time reaches them. They run one at a time, in order of their time, never under the
heap's lock: an event may put further events on the clock, and may take its own locks.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class Event:
    """A callback and when it is due, in epoch seconds. `cancel()` makes it void."""

    when: float
    order: int
    callback: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Never run it. Too late is no error."""
        self.cancelled = True


class TurnedClock:
    """A `rehearsal.contracts.Clock` with events. Thread-safe."""

    def __init__(self, real: Callable[[], float] = time.time) -> None:
        self._real = real
        self._offset = 0.0
        self._heap: list[Event] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._turning = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.problems: list[str] = []
        """What went wrong in events: a traceback each. An event that fails stops neither the clock nor who turns it."""

    def now(self) -> float:
        """Epoch seconds, UTC. Inside an event that the clock was turned to.

        The time the event was due, or just after.
        """
        with self._changed:
            return self._now()

    def sleep(self, seconds: float) -> None:
        """The same as `advance`: a wait costs nothing."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Turn the clock forward by `seconds`, running what falls due on the way, in order.

        Raises ValueError if negative.
        """
        if seconds < 0:
            raise ValueError(f"the clock cannot be turned back: {seconds}")
        with self._turning:
            self._run_until(self.now() + seconds)

    def at(self, when: float, callback: Callable[[], None]) -> Event:
        """Run `callback` once the clock reaches `when` (epoch seconds); at the next turn if that is past."""
        with self._changed:
            event = Event(when, next(self._count), callback)
            heapq.heappush(self._heap, event)
            self._changed.notify_all()
            return event

    def after(self, seconds: float, callback: Callable[[], None]) -> Event:
        """Run `callback` in `seconds` from now."""
        return self.at(self.now() + seconds, callback)

    def start(self) -> None:
        """Run events that real time reaches, in a thread of its own, until `stop()`."""
        with self._changed:
            if self._thread is not None:
                return
            self._stopping = False
            self._thread = threading.Thread(target=self._follow, name="cloud-clock", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop following real time. Safe to call twice."""
        with self._changed:
            thread, self._thread, self._stopping = self._thread, None, True
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)

    def _now(self) -> float:
        return self._real() + self._offset

    def _run_until(self, target: float) -> None:
        while (event := self._pop(target)) is not None:
            try:
                event.callback()
            except Exception:
                self.problems.append(traceback.format_exc())
        with self._changed:
            self._offset += max(0.0, target - self._now())

    def _pop(self, target: float) -> Event | None:
        """The next event due by `target`; the clock then stands at its time."""
        with self._changed:
            while self._heap and self._heap[0].when <= target:
                event = heapq.heappop(self._heap)
                if event.cancelled:
                    continue
                self._offset += max(0.0, event.when - self._now())
                return event
        return None

    def _follow(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                wait = self._heap[0].when - self._now() if self._heap else None
                if wait is None or wait > 0:
                    self._changed.wait(min(wait, 3600.0) if wait is not None else None)
                    continue
            with self._turning:
                self._run_until(self.now())
