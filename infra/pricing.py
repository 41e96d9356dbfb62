"""What a plan costs, all in. A part whose price the catalog does not know is listed as unknown and not counted."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.loader import Catalog
from catalog.rows import Image, MachineType, Model, Price


@dataclass(frozen=True)
class Part:
    """One thing that bills: dollars an hour, or once a boot; None is unknown."""

    name: str
    per_hour: float | None
    once: float | None
    source: str
    evidence: str


@dataclass(frozen=True)
class Cost:
    """The parts and their sums over the parts whose price is known."""

    parts: tuple[Part, ...]
    window_s: int

    @property
    def per_hour(self) -> float:
        """Dollars an hour of the known parts."""
        return round(sum(p.per_hour or 0.0 for p in self.parts), 6)

    @property
    def window(self) -> float:
        """Dollars for the whole window, with what is paid once a boot."""
        return round(self.per_hour * self.window_s / 3600 + sum(p.once or 0.0 for p in self.parts), 4)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the parts whose price is unknown."""
        return tuple(p.name for p in self.parts if p.per_hour is None and p.once is None)


def cost(
    catalog: Catalog,
    machine: MachineType,
    model: Model,
    image: Image | None,
    *,
    region: str,
    provisioning: str,
    egress: str,
    disk_gb: int,
    disk_type: str,
    window_s: int,
) -> Cost:
    """All parts of a machine of one cloud, in one region."""
    machine_price = catalog.price(machine.accelerator, region=region, provisioning=provisioning)
    parts = [_hourly(f"{machine.accelerators} x {machine.accelerator}", machine_price, machine.accelerators)]
    disk = catalog.price(disk_type, region=region)
    parts.append(_hourly(f"{disk_gb} GB {disk_type}", disk, disk_gb / 730))
    if egress == "address":
        parts.append(_hourly("external address", catalog.price(f"{machine.cloud}-external-address", region=region), 1))
    if egress == "nat":
        parts.append(_hourly("NAT, address", catalog.price(f"{machine.cloud}-nat-address", region=region), 1))
        parts.append(_hourly("NAT, machine", catalog.price(f"{machine.cloud}-nat-vm", region=region), 1))
        data = catalog.price(f"{machine.cloud}-nat-data", region=region)
        moved = (image.compressed_gib if image else None, model.weights_gb)
        known = data is not None and None not in moved
        gib = (moved[0] or 0) + (moved[1] or 0) * 1e9 / (1 << 30)
        once = round(data.usd * gib, 4) if data is not None and known else None
        parts.append(Part("NAT, image and weights", None, once, data.source if data else "", data.evidence if data else ""))
    return Cost(tuple(parts), window_s)


def _hourly(name: str, price: Price | None, count: float) -> Part:
    if price is None:
        return Part(name, None, None, "", "")
    return Part(name, round(price.usd * count, 6), None, f"{price.source}, {price.date}", price.evidence)
