"""Plan -> what a toy machine is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.targets.toy.access import relay

from infra.access import to_output
from infra.kept import Choice, Kept, OnChange, Wanted

if TYPE_CHECKING:
    from infra.plan import Plan
    from startup.render import Rendered
    from startup.spec import BootSpec

MACHINE_TYPE = "toy:index:Machine"


def boot_spec(plan: Plan) -> BootSpec:
    """A toy adds nothing."""
    return plan.boot


def wanted(deployment: Any, place: str) -> dict[str, Wanted]:
    """A toy keeps its room."""
    rooms = (place,) if place else deployment.target.rooms
    return {"target.rooms": Wanted(", ".join(rooms), rooms[0], OnChange.IGNORE, rooms)}


def settled(config: Any, choices: Mapping[str, Choice]) -> Any:
    """The room that was chosen."""
    return config.model_copy(update={"rooms": (choices["target.rooms"].value,)})


def machine(plan: Plan, boot: Rendered) -> dict[str, object]:
    """A toy machine."""
    return {"identity": plan.boot.deployment_id, "room": plan.deployment.target.places[0], "script": boot.sha256}


def outputs(plan: Plan, kept: Kept, boot: Rendered) -> dict[str, object]:
    """What the command line reads of every stack; the component adds `expires_at`."""
    room = plan.deployment.target.places[0]
    return {
        "target": "toy",
        "id": kept.id,
        "zone": room,
        "window_s": plan.deployment.common.window,
        "script_sha256": boot.sha256,
        "image": f"{plan.deployment.image.repository}@{plan.boot.image_digest}",
        "model": f"{plan.deployment.model.name}@{plan.boot.model_revision}",
        "price_per_hour": plan.cost.per_hour,
        "price_unknown": list(plan.cost.unknown),
        "access": to_output(relay(room, kept.id)),
    }


def expires_at(born: float) -> str:
    """The end of the hour."""
    return datetime.fromtimestamp(born + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
