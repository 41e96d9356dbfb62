"""Waiting as the official provider waits, on a clock that is passed in.

The intervals follow Terraform's state waiter: a delay, a first look, then intervals that double from 0.1 s between a
floor and 10 s. Only slept seconds count, so on a turned clock the waits cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")
Sleep = Callable[[float], None]

LONGEST: Final = 10.0  # seconds between two looks, at most
NOT_FOUND_CHECKS: Final = 20  # looks that may find nothing before a thing counts as gone

RETRY_ROUND: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
RETRY_ROUNDS: Final = 4
RETRY_TOTAL: Final = 330.0
"""Seconds over which a request is retried, in rounds of eight attempts: recorded as 32 requests and 330 s."""


def retry_waits() -> Iterator[float]:
    """The pauses between the attempts of one request; they add up to `RETRY_TOTAL`."""
    between = (RETRY_TOTAL - RETRY_ROUNDS * sum(RETRY_ROUND)) / (RETRY_ROUNDS - 1)
    for number in range(RETRY_ROUNDS):
        if number:
            yield between
        yield from RETRY_ROUND


def duration(seconds: float) -> str:
    """As Go prints it: 10s, 20m0s, 1h0m0s."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"


class TimedOutWaiting(Exception):
    """The wanted state did not come in time; the text is the waiter's own."""


class NeverSeen(Exception):
    """Nothing was found, time and again; the text is the waiter's own."""


@dataclass(frozen=True)
class Waiter:
    """How to wait for one state: `delay` first, `floor` between looks, `every` instead of growing intervals."""

    target: str
    timeout: float
    delay: float = 0.0
    floor: float = 0.0
    every: float = 0.0

    def wait(self, look: Callable[[], tuple[T | None, str]], sleep: Sleep) -> T:
        """Look until the state is the target. `look` gives a thing (None when there is none) and its state."""
        slept, interval, missing, state = self.delay, 0.1, 0, ""
        if self.delay:
            sleep(self.delay)
        while True:
            thing, state = look()
            if thing is None:
                missing += 1
                if missing > NOT_FOUND_CHECKS:
                    raise NeverSeen(f"couldn't find resource ({missing} retries)")
            elif state == self.target:
                return thing
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
