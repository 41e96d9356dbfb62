"""Who waits for the cloud by real time: somebody who reads a log, and somebody who asks again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

READS = ("logs.DescribeLogStreams", "logs.GetLogEvents", "logs.FilterLogEvents")
ASKS = ("sagemaker.DescribeEndpoint",)


class Readers:
    """`turn` is what one question about an endpoint turns the clock by, in seconds, at this moment; 0 turns nothing."""

    def __init__(self, turn: Callable[[], float], advance: Callable[[float], None]) -> None:
        self._turn, self._advance = turn, advance
        self._changed = threading.Condition()
        self._reads = 0
        self._sleepers = 0

    def sleep(self, seconds: float) -> None:
        """A provider's wait: it turns the clock himself, and nobody else does meanwhile."""
        with self._changed:
            self._sleepers += 1
        try:
            self._advance(seconds)
        finally:
            with self._changed:
                self._sleepers -= 1

    def looked(self, operation: str, agent: str) -> None:
        """A request was answered. Called without the cloud's lock: it may run what falls due on the clock."""
        if operation in READS:
            with self._changed:
                self._reads += 1
                self._changed.notify_all()
        if operation in ASKS and PROVIDER not in agent and not self._sleepers and (seconds := self._turn()) > 0:
            self._advance(seconds)

    def wait(self, seconds: float) -> None:
        """Until somebody has read a log anew from its beginning to its end (three questions), or so long in real time."""
        with self._changed:
            until = self._reads + 3
            self._changed.wait_for(lambda: self._reads >= until, seconds)


PROVIDER = "stand-in provider"
"""In the user agent of a provider, which turns the clock itself."""
