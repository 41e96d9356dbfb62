"""The running toy, asked of a toy cloud that is a mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.targets.protocol import Billable, DeploymentRef, Failure, Machine
from startup import phases
from verdict.errors import FlexserveError, NoCapacity

CLOUDS: dict[str, dict[str, Any]] = {}


def connect(settings: Mapping[str, object]) -> Live:
    """The toy cloud of that name."""
    return Live(CLOUDS.setdefault(str(settings["folder"]), {"now": 0.0, "machines": {}, "failed": {}}))


def resolve(key: str, config: object) -> str:
    """A toy has nothing to resolve."""
    raise FlexserveError(f"toy cannot resolve {key}")


class Live:
    """`LiveTarget` of a toy cloud."""

    def __init__(self, cloud: dict[str, Any]) -> None:
        self.cloud = cloud

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.cloud["now"], UTC)

    def find(self, deployment: DeploymentRef) -> Machine | None:
        toy = self._toy(deployment)
        if toy is None:
            return None
        born = datetime.fromtimestamp(toy["born"], UTC)
        return Machine(toy["name"], toy["room"], "UP", born, born + timedelta(hours=1), {"id": deployment.id}, "playtime")

    def boot(self, deployment: DeploymentRef) -> phases.BootStatus | None:
        toy = self._toy(deployment)
        return phases.parse(toy["said"]) if toy else None

    def log(self, deployment: DeploymentRef, *, since: int = 0) -> tuple[str, int]:
        toy = self._toy(deployment)
        text = toy["console"] if toy else ""
        return text[since:], max(since, len(text))

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        toy = self._toy(deployment)
        return [Billable("toy", deployment.id, toy["room"], 0.01)] if toy else []

    def delete(self, thing: Billable) -> None:
        self.cloud["machines"].pop(thing.name, None)

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        return None if self._toy(deployment) else self.cloud["failed"].get(deployment.id)

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        return NoCapacity("the room is full", way_out="another room") if code == "FULL" or "room is full" in text else None

    def _toy(self, deployment: DeploymentRef) -> dict[str, Any] | None:
        toy: dict[str, Any] | None = self.cloud["machines"].get(deployment.id)
        return toy if toy and self.cloud["now"] < toy["born"] + 3600 else None
