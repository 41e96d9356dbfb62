"""Whether the build that a machine would wait for is kept: asked before the machine is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from infra.targets import registry
from verdict.errors import FlexserveError, NoAccess
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from infra.plan import Plan
    from infra.settle import Settled
    from infra.targets.protocol import Builds

BY_HAND = "make it as docs/operator/g5g-spot.md says, or set target.build.where: builder"


class NoBuild(FlexserveError):
    """What the stack would serve from is not there. Nothing was created."""

    exit_code = ExitCode.REFUSED
    kind = "no-build"

    def __init__(self, key: str, way_out: str) -> None:
        super().__init__(f"there is no build {key} yet", why="the machine would wait for it, and bill", way_out=way_out)


def waits(plan: Plan) -> bool:
    """Whether the machine serves from a build that it does not make itself."""
    if registry.builder(plan.deployment.target.kind) is None or plan.boot.ec2 is None:
        return False
    return plan.building is not None or not plan.boot.ec2.may_build


def check(settled: Settled, *, live: bool, preview: bool, warn: Callable[[str], None], builds: Builds | None = None) -> None:
    """Refuse a machine whose build is not in the bucket. Raises `NoBuild`; a preview says so, and goes on.

    A live machine that stays has its build, or its boot says what is missing. A bucket that may not be looked into stops nothing.
    """
    plan = settled.plan
    if not waits(plan) or (live and not settled.replaces):
        return
    builds = builds or _builds(settled)
    try:
        if builds.kept() is not None:
            return
    except NoAccess as error:
        warn(f"whether the build is there cannot be seen: {error.what}")
        return
    missing = NoBuild(builds.key, f"`flexserve build -s {plan.deployment.stack}` makes it, once" if plan.building else BY_HAND)
    if not preview:
        raise missing
    warn(f"an update would be refused: {missing}")


def _builds(settled: Settled) -> Builds:
    """The bucket is known by now: the stack file's, an earlier stack's, or the one that this run would make."""
    module, plan = registry.builder(settled.plan.deployment.target.kind), settled.plan
    assert module is not None and plan.boot.ec2 is not None
    builds: Builds = module.connect(plan, {"bucket": plan.boot.ec2.bucket}, settled.kept.value("owner"))
    return builds
