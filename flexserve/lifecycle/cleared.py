"""`up --wait-out`: what was made and will not serve is waited out and deleted, and the error is the one that it failed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flexserve.lifecycle.down import down
from flexserve.lifecycle.parts import Parts
from verdict.errors import BadConfig, FlexserveError, Interrupted, LeftBehind, Refused

T = TypeVar("T")


def cleared(parts: Parts, make: Callable[[], T], say: Callable[[str], None]) -> T:
    """What `make` gives. Where it fails after something was made, nothing of it is left when this raises.

    Raises `LeftBehind` when something is. A refusal, a mistake and an interruption leave everything as it is.
    """
    before = parts.read()
    machine = parts.live(before).find(before) if before is not None else None
    alive = machine is not None and not machine.dead
    try:
        return make()
    except (BadConfig, Refused, Interrupted):
        raise
    except FlexserveError as error:
        if alive:  # it served before: that is not thrown away
            raise
        say(f"{error.what}; everything of {parts.stack} is deleted, as you asked")
        gone = down(parts, purge=False, say=say, tokens=lambda _: None)
        if gone.left_behind:
            names = ", ".join(f"{thing.kind} {thing.name}" for thing in gone.left_behind)
            raise LeftBehind(f"{error.what}; and this is left: {names}", way_out=f"flexserve down -s {parts.stack}") from error
        error.way_out = "; ".join(
            part for part in (error.way_out.partition("; `flexserve down")[0], "all of it is deleted") if part
        )
        raise
