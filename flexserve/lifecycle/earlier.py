"""What earlier deployments of the stack left on purpose, and those that another state knows: found by stack and owner.

A state and its checkout know of one deployment. What is kept of those before is found in the cloud itself, where a target can say
(`CanRecall`). One that another state made and that goes on is never touched, nor is anything beside it: it may use what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flexserve.lifecycle.parts import Parts
from infra.targets.protocol import CanRecall, DeploymentRef, Life, LiveTarget
from verdict.errors import CannotTell, FlexserveError, NoAccess


@dataclass(frozen=True)
class Earlier:
    """`over`: lives that have ended. `others`: what this state does not know and goes on, each with how that is seen."""

    live: LiveTarget
    over: tuple[Life, ...]
    others: tuple[Life, ...]


def earlier(parts: Parts, ref: DeploymentRef | None, say: Callable[[str], None]) -> Earlier | None:
    """The other deployments of this stack; None where the cloud was not asked: the target cannot be.

    `ref`: the one that is known here. Without one, a cloud that does not answer raises `NoAccess` or `CannotTell`; with one it is
    told, and None.
    """
    live = parts.recalls(ref)
    if not isinstance(live, CanRecall):
        return None
    try:
        found: Sequence[Life] = live.lives(parts.stack, parts.owner(ref))
    except FlexserveError as error:
        if ref is not None:
            say(f"whether earlier deployments of {parts.stack} left something cannot be seen: {error.what}")
            return None
        kind = NoAccess if isinstance(error, NoAccess) else CannotTell
        what = f"this state knows of no deployment of {parts.stack}, and the cloud cannot be asked: {error.what}"
        raise kind(what, why=error.why, way_out=error.way_out) from error
    rest = [life for life in found if ref is None or life.ref.id != ref.id]
    return Earlier(live, tuple(x for x in rest if not x.going_on), tuple(x for x in rest if x.going_on))


def unknown(stack: str, life: Life) -> str:
    """What is said of one that goes on, and what can be done about it."""
    return (
        f"deployment {life.ref.id} of {stack}, of your own, which this state does not know: {life.going_on}; "
        "`flexserve down` where it was made deletes it"
    )
