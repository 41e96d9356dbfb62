"""Who waits for the cloud by real time: somebody who reads a log, and somebody who asks again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

READS = ("logs.DescribeLogStreams", "logs.GetLogEvents", "logs.FilterLogEvents")
ASKS = ("sagemaker.DescribeEndpoint",)
PROVIDER = "stand-in provider"
"""In the user agent of who turns the clock himself while he waits."""


class Readers:
    """`turn` is what one question of an operator who waits turns the clock by, in seconds; 0 turns nothing."""

    def __init__(self, turn: Callable[[], float], advance: Callable[[float], None]) -> None:
        self._turn, self._advance = turn, advance
        self._read = threading.Condition()
        self._reads = 0
        self._turned_at = float("-inf")

    def looked(self, operation: str, agent: str) -> None:
        """A request was answered. Called without the cloud's lock: it may run what falls due on the clock."""
        if operation in READS:
            with self._read:
                self._reads += 1
                self._read.notify_all()
        if operation in ASKS:
            if PROVIDER in agent:
                self._turned_at = time.monotonic()
            elif (seconds := self._turn()) > 0 and time.monotonic() - self._turned_at > 3.0:
                self._advance(seconds)

    def wait(self, seconds: float) -> None:
        """Until somebody has read a log anew from its beginning to its end (three questions), or so long in real time."""
        with self._read:
            until = self._reads + 3
            self._read.wait_for(lambda: self._reads >= until, seconds)
