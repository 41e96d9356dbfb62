"""The shape of a reason why a phase failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One reason. `phases` empty: any phase.

    `retry`: it may pass by itself, so the phase goes on until its limit; `throttled`: for no longer than `image.throttled_wait`;
    `tries`: for so many tries (0: no such bound).
    """

    id: str
    about: str
    way_out: str
    pattern: str = ""
    phases: tuple[str, ...] = ()
    retry: bool = False
    throttled: bool = False
    tries: int = 0
