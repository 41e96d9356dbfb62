"""The running toy, asked of a toy cloud: a folder, one JSON file a machine."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from infra.targets.protocol import Billable, DeploymentRef, Failure, Machine
from startup import phases
from verdict.errors import FlexserveError, NoCapacity

WINDOW_S = 3600.0


def connect(settings: Mapping[str, object]) -> Live:
    """The toy cloud in that folder."""
    return Live(Path(str(settings["folder"])))


def resolve(key: str, deployment: object) -> str:
    """A toy has nothing to resolve."""
    raise FlexserveError(f"toy cannot resolve {key}")


class Live:
    """`LiveTarget` of a toy cloud."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def now(self) -> datetime:
        turned = _read(self.folder / "turned")
        return datetime.fromtimestamp(time.time() + (turned["by"] if turned else 0.0), UTC)

    def find(self, deployment: DeploymentRef) -> Machine | None:
        toy = self._toy(deployment)
        if toy is None:
            return None
        born = datetime.fromtimestamp(toy["born"], UTC)
        end = born + timedelta(seconds=WINDOW_S)
        return Machine(toy["name"], toy["room"], "UP", born, end, {"id": deployment.id}, "playtime")

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
        machine_file(self.folder, thing.name).unlink(missing_ok=True)

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        failed = _read(self.folder / f"failed-{deployment.id}.json")
        return Failure(**failed, at=self.now()) if failed and not self._toy(deployment) else None

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        return NoCapacity("the room is full", way_out="another room") if code == "FULL" or "room is full" in text else None

    def _toy(self, deployment: DeploymentRef) -> dict[str, Any] | None:
        toy = _read(machine_file(self.folder, deployment.id))
        return toy if toy and self.now().timestamp() < toy["born"] + WINDOW_S else None


def machine_file(folder: Path, identity: str) -> Path:
    """Where the toy cloud keeps the machine of a deployment."""
    return folder / f"machine-{identity}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return document
