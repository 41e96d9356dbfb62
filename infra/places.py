"""The places that a stack may be asked for in, in the order of the stack file: what each is, and what it would cost there. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from infra.kept import Choice
from infra.targets import registry
from verdict.errors import Refused

if TYPE_CHECKING:
    from catalog.loader import Catalog
    from infra.deployment import Deployment
    from infra.image_facts import ImageFacts


class Place(Struct, frozen=True):
    """One place, as the stack file spells it. `way`: how the machine is asked for there, in the catalog's words.

    `quota`: places of the same one count against the same quota. Dollars are those of the parts whose price is known.
    """

    name: str
    zone: str
    size: str
    way: str
    quota: str = ""
    per_hour: float | None = None
    window: float | None = None
    unknown: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """For `plan --json`."""
        return {"place": self.name, "per_hour": self.per_hour, "window": self.window, "unknown": list(self.unknown)}


def places(
    deployment: Deployment, catalog: Catalog, allow: Iterable[str] = (), read: ImageFacts | None = None
) -> tuple[Place, ...]:
    """All of them, each checked against every rule. Raises `Refused` with the place that breaks one.

    `read`: what the image says of itself, where somebody has asked its registry.
    """
    from infra.plan import make_plan

    allow, found = tuple(allow), []
    for name in deployment.target.places:
        there = at(deployment, name)
        try:
            plan = make_plan(there, catalog, allow, read)
        except Refused as refused:
            raise Refused(refused.rule, why=f"in {name}: {refused.why}", way_out=refused.way_out) from refused
        target, cost = deployment.target, plan.cost
        found.append(
            Place(
                name,
                target.zone(name),
                plan.machine.name,
                there.target.provisioning,
                target.quota_of(name),
                cost.per_hour,
                cost.window,
                cost.unknown,
            )
        )
    return tuple(found)


def at(deployment: Deployment, place: str) -> Deployment:
    """The deployment as it would be decided in one place; names that only the cloud resolves stay names."""
    resources = registry.module(deployment.target.kind, "resources")
    wanted = resources.wanted(deployment, place)
    choices = {key: Choice(want.asked, want.value if want.value is not None else want.asked) for key, want in wanted.items()}
    return type(deployment)(deployment.stack, resources.settled(deployment.target, choices), deployment.common)
