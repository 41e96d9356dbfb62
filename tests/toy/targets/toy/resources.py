"""Plan -> what a toy machine is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from infra.kept import Choice, OnChange, Wanted

if TYPE_CHECKING:
    from infra.plan import Plan
    from startup.render import Rendered
    from startup.spec import BootSpec

MACHINE_TYPE = "toy:index:Machine"


def boot_spec(plan: Plan) -> BootSpec:
    """A toy adds nothing."""
    return plan.boot


def wanted(config: Any, place: str) -> dict[str, Wanted]:
    """A toy keeps its room."""
    rooms = (place,) if place else config.rooms
    return {"target.rooms": Wanted(", ".join(rooms), rooms[0], OnChange.IGNORE, rooms)}


def settled(config: Any, choices: Mapping[str, Choice]) -> Any:
    """The room that was chosen."""
    return config.model_copy(update={"rooms": (choices["target.rooms"].value,)})


def machine(plan: Plan, boot: Rendered) -> dict[str, object]:
    """A toy machine."""
    return {"name": f"toy-{plan.boot.deployment_id}", "room": plan.deployment.target.places[0], "script": boot.sha256}
