"""What `status` says of a stack's build: the machine that makes it, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from flexserve.lifecycle.parts import Leftover
from flexserve.lifecycle.state import STOPPED
from flexserve.output import dollars
from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.building import Building
    from infra.targets.protocol import Builds, KeptBuild


@dataclass(frozen=True)
class AtWork:
    """A builder that lives. Dollars an hour all in: as it was asked for, and at most; None where a part is unknown."""

    id: str
    machine: str
    where: str
    key: str
    phase: str
    since: datetime | None
    seconds: int | None
    price_per_hour: float | None
    most_per_hour: float | None

    @property
    def cost_so_far(self) -> float | None:
        """Dollars since it was made, at most where only that is known."""
        price = self.most_per_hour if self.price_per_hour is None else self.price_per_hour
        return None if self.seconds is None or price is None else round(self.seconds / 3600 * price, 4)

    def as_dict(self) -> dict[str, object]:
        """For `status --json`."""
        return {
            "id": self.id,
            "machine": self.machine,
            "where": self.where,
            "key": self.key,
            "phase": self.phase,
            "since": self.since.isoformat() if self.since else None,
            "seconds": self.seconds,
            "price_per_hour": self.price_per_hour,
            "price_per_hour_at_most": self.most_per_hour,
            "cost_so_far": self.cost_so_far,
        }


@dataclass(frozen=True)
class Making:
    """The build that the stack file asks for (`key`), what is kept of it, and who makes one now."""

    key: str
    kept: KeptBuild | None = None
    at_work: AtWork | None = None

    def as_dict(self) -> dict[str, object]:
        """For `status --json`."""
        kept = self.kept
        return {
            "key": self.key,
            "kept": {"place": kept.place, "bytes": kept.size, "price_per_month": kept.price_per_month} if kept else None,
            "builder": self.at_work.as_dict() if self.at_work else None,
        }

    def rows(self) -> list[tuple[str, str]]:
        """For people."""
        return [("build", self._build()), *([("builder", _builder(self.at_work, self.key))] if self.at_work else [])]

    def _build(self) -> str:
        if self.kept is None:
            return f"{self.key}: none is kept"
        price = dollars(self.kept.price_per_month, " a month")
        return f"{self.key}: {self.kept.size / 1e9:.2f} GB in {self.kept.place}, {price}"


def look(builds: Builds, left: Callable[[], Leftover | None], building: Building | None) -> Making:
    """Ask the bucket, and for a builder that lives. Raises `NoAccess` where the cloud will not say."""
    return Making(builds.key, builds.kept(), _at_work(left(), building, builds.key))


def _at_work(left: Leftover | None, building: Building | None, key: str) -> AtWork | None:
    machine = left.live.find(left.ref) if left is not None else None
    if left is None or machine is None or machine.cloud_state.lower() in STOPPED:
        return None
    boot = left.live.boot(left.ref)
    usual = building.usual if building is not None and not building.usual.unknown else None
    asked = building.cost if building is not None and not building.cost.unknown else None
    if machine.provisioning == "on_demand":
        asked = usual
    return AtWork(
        left.ref.id,
        machine.name,
        machine.where,
        str(left.ref.outputs.get("build") or key),
        boot.phase if boot is not None else "",
        machine.created_at,
        int((left.live.now() - machine.created_at).total_seconds()) if machine.created_at is not None else None,
        asked.per_hour if asked else None,
        usual.per_hour if usual else None,
    )


def _builder(at: AtWork, wanted: str) -> str:
    since = f" since {at.since:%Y-%m-%d %H:%M:%S} UTC" if at.since else ""
    phase = f", phase {at.phase}" if at.phase else ""
    most = "" if at.price_per_hour is not None else "at most "
    price = at.most_per_hour if at.price_per_hour is None else at.price_per_hour
    known = f"{most}{dollars(at.cost_so_far)} so far at {most}{dollars(price, '/h')}"
    cost = f", {known if price is not None else 'at an unknown price'}"
    other = f"; it makes another build, {at.key}" if at.key != wanted else ""
    return f"{at.machine} in {at.where}{since}{phase}{cost}{other}"


def told(look_: Callable[[], Making | None], say: Callable[[str], None]) -> Making | None:
    """What `look_` finds. A cloud that does not say is no failure of a look at the stack."""
    try:
        return look_()
    except FlexserveError as error:
        say(f"whether a build is kept or being made cannot be seen: {error.what}")
        return None


def document(status: Mapping[str, object], making: Making | None) -> dict[str, object]:
    """The `status` document, with `build` where the target serves from one."""
    return {**status, **({"build": making.as_dict()} if making is not None else {})}
