"""The shape of a reason why a phase failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One reason. `retry`: it may pass by itself, so the phase goes on until its limit; `phases` empty: any phase."""

    id: str
    about: str
    way_out: str
    pattern: str = ""
    phases: tuple[str, ...] = ()
    retry: bool = False
