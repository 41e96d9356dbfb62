"""How often the official provider tries one request again, on a clock that is passed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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
