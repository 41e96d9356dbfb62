"""What time it is by the cloud: the `Date` of its last answer in this process, and the seconds that passed since."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TOLERATED_S = 120
"""A clock that differs by more is told to the operator. Answers on their way take seconds."""


@dataclass
class CloudClock:
    """A cloud's time in one process. `wall`: this machine's clock, epoch seconds; `steady`: seconds that nobody sets."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _heard: tuple[float, float] | None = None

    def hear(self, date: str) -> datetime | None:
        """Note an answer's `Date`; it, in UTC. None for what is no date."""
        try:
            said = parsedate_to_datetime(date)
            said = (said if said.tzinfo else said.replace(tzinfo=UTC)).astimezone(UTC)  # RFC 5322: -0000 is UTC
        except (ValueError, OverflowError):
            return None
        self._heard = (said.timestamp(), self.steady())
        return said

    def now(self) -> float | None:
        """Epoch seconds by the cloud. None while none has answered."""
        return self._heard[0] + self.steady() - self._heard[1] if self._heard else None

    def ahead(self) -> float:
        """Seconds by which this machine's clock is ahead of the cloud's; negative when it is behind, 0 when nobody knows."""
        now = self.now()
        return self.wall() - now if now is not None else 0.0


def differs(ahead: float) -> str:
    """A clause on a clock that is wrong, e.g. `this machine's clock is 60 min ahead of the cloud's`; empty where it is right."""
    if abs(ahead) <= TOLERATED_S:
        return ""
    way = "ahead of" if ahead > 0 else "behind"
    return f"this machine's clock is {abs(ahead) / 60:.0f} min {way} the cloud's"


CLOUD = CloudClock()
"""Of this process: it talks to one cloud."""
