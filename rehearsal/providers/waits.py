"""Waiting as Terraform's state waiter waits, on a clock that is passed in.

A delay, a first look, then intervals that double from 0.1 s between a floor and 10 s. Only slept seconds count, so on a
turned clock the waits cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")
Sleep = Callable[[float], None]

LONGEST: Final = 10.0  # seconds between two looks, at most
NOT_FOUND_CHECKS: Final = 20  # looks that may find nothing before a thing counts as gone


def duration(seconds: float) -> str:
    """As Go prints it: 10s, 20m0s, 1h0m0s."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"


class TimedOutWaiting(Exception):
    """The wanted state did not come in time; the text is the waiter's own."""


class NeverSeen(Exception):
    """Nothing was found, time and again; the text is the waiter's own."""


class UnexpectedState(Exception):
    """A state that is neither the target nor on the way to it; the text is the waiter's own, without a cause."""


@dataclass(frozen=True)
class Waiter:
    """How to wait for one state: `delay` first, `floor` between looks, `every` instead of growing intervals.

    With `pending`, any other state than those and the target ends the wait.
    """

    target: str
    timeout: float
    delay: float = 0.0
    floor: float = 0.0
    every: float = 0.0
    pending: frozenset[str] = frozenset()

    def wait(self, look: Callable[[], tuple[T | None, str]], sleep: Sleep) -> T:
        """Look until the state is the target. `look` gives a thing (None when there is none) and its state."""
        thing = self._watch(look, sleep, False)
        if thing is None:
            raise AssertionError("only a wait for nothing ends with nothing")
        return thing

    def until_gone(self, look: Callable[[], tuple[T | None, str]], sleep: Sleep) -> None:
        """Look until there is nothing any more, or the state is the target."""
        self._watch(look, sleep, True)

    def _watch(self, look: Callable[[], tuple[T | None, str]], sleep: Sleep, gone: bool) -> T | None:
        slept, interval, missing, state = self.delay, 0.1, 0, ""
        if self.delay:
            sleep(self.delay)
        while True:
            thing, state = look()
            if thing is None:
                if gone:
                    return None
                missing += 1
                if missing > NOT_FOUND_CHECKS:
                    raise NeverSeen(f"couldn't find resource ({missing} retries)")
            elif state == self.target:
                return thing
            elif self.pending and state not in self.pending:
                raise UnexpectedState(f"unexpected state '{state}', wanted target '{self.target}'")
            else:
                missing = 0
            pause = min(self.every or interval, max(self.timeout - slept, 0.0))
            if pause <= 0.0:
                last = f"last state: '{state}', " if state else ""
                raise TimedOutWaiting(
                    f"timeout while waiting for state to become '{self.target}' ({last}timeout: {duration(self.timeout)})"
                )
            sleep(pause)
            slept += pause
            interval = min(max(interval * 2, self.floor), LONGEST)
