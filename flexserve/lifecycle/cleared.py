"""`up --wait-out`: what was made and will not serve is waited out and deleted, and the error is the one that it failed with.

What was there before is not deleted, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flexserve.lifecycle.down import down
from flexserve.lifecycle.parts import Parts
from infra.targets.protocol import Machine
from verdict.errors import BadConfig, FlexserveError, Interrupted, LeftBehind, Refused

T = TypeVar("T")


def cleared(parts: Parts, make: Callable[[], T], say: Callable[[str], None]) -> T:
    """What `make` gives. Where it fails after something was made, nothing of it is left when this raises.

    Raises `LeftBehind` when something is. A refusal, a mistake and an interruption leave everything as it is.
    """
    before = _living(parts)
    try:
        return make()
    except (BadConfig, Refused, Interrupted):
        raise
    except FlexserveError as error:
        if before is not None and (stays := _stays(parts, before)):
            say(f"--wait-out deletes nothing: {stays}")
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


def _living(parts: Parts) -> Machine | None:
    """The machine, unless it is dead."""
    ref = parts.read()
    machine = parts.live(ref).find(ref) if ref is not None else None
    return machine if machine is not None and not machine.dead else None


def _stays(parts: Parts, before: Machine) -> str:
    """What is still there of before, which is not thrown away; empty where this run has put another one in its place, or none.

    Where nobody can tell, nothing is deleted.
    """
    try:
        now = _living(parts)
    except FlexserveError as error:
        return f"whether {before.name}, which was there before this `up`, still is cannot be seen ({error.what})"
    if now is None or (now.name, now.created_at) != (before.name, before.created_at):
        return ""
    return f"{now.name} was there before this `up`"
