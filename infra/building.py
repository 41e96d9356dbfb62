"""What making a server's build takes, once, on a machine of its own. Pure; what nobody knows is None."""

from __future__ import annotations

from msgspec import Struct

from catalog.loader import Catalog
from infra.pricing import Cost, once
from infra.targets.registry import TargetConfig


class Building(Struct, frozen=True):
    """The builder and its price an hour, as it is asked for; `usual` is the same at the usual price, above which spot never is."""

    machine_type: str
    provisioning: str
    minutes: float | None
    cost: Cost
    usual: Cost

    @property
    def usd(self) -> float | None:
        """Dollars for all of it."""
        return self._of(self.cost)

    @property
    def usd_at_most(self) -> float | None:
        """Dollars at the usual price: EC2 asks no more for spot where no higher price is offered."""
        return self._of(self.usual)

    def as_dict(self) -> dict[str, object]:
        """For `plan --json` and `build --json`."""
        return {
            "machine_type": self.machine_type,
            "provisioning": self.provisioning,
            "minutes": None if self.minutes is None else round(self.minutes),
            "usd": self.usd,
            "usd_at_most": self.usd_at_most,
            "per_hour": self.cost.per_hour,
            "unknown": list(self.cost.unknown),
        }

    def _of(self, cost: Cost) -> float | None:
        if self.minutes is None or cost.unknown or cost.per_hour is None:
            return None
        return round(cost.per_hour * self.minutes / 60, 2)


def building(target: TargetConfig, catalog: Catalog, egress: str) -> Building | None:
    """Of a target whose build a machine of its own makes, and whose machine type the catalog has; else None."""
    row = catalog.builder_types.get(target.builder)
    if row is None:
        return None

    def priced(way: str) -> Cost:
        return once(
            catalog,
            row.name,
            row.cloud,
            region=target.region_of(target.places[0]),
            provisioning=way,
            disk_gb=target.builder_gb,
            disk_type=target.disk_type,
            address=egress != "existing",
        )

    return Building(
        row.name,
        target.builder_way,
        target.making_minutes(row, catalog.host_images),
        priced(target.builder_way),
        priced("on_demand"),
    )
