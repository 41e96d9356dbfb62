"""What a plan costs, all in. A part whose price the catalog does not know is listed as unknown and not counted."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from catalog.loader import Catalog
from catalog.rows import MachineType, Model
from infra.duration import words

NAT_PARTS = {"address": "address", "vm": "machine", "gateway": "gateway"}


class Part(Struct, frozen=True):
    """One thing that bills: dollars an hour, or once a boot; None is unknown, and `why` says what the catalog lacks."""

    name: str
    per_hour: float | None
    once: float | None
    source: str
    evidence: str
    why: str = ""


class Stay(Struct, frozen=True):
    """What stays when the machine is gone: dollars a month; None is unknown, and `why` says what the catalog lacks."""

    name: str
    per_month: float | None
    source: str
    evidence: str
    why: str = ""


class Cost(Struct, frozen=True):
    """The parts and their sums over the parts whose price is known."""

    parts: tuple[Part, ...]
    window_s: int

    @property
    def per_hour(self) -> float | None:
        """Dollars an hour of the known parts. None where nothing that costs is known: the rest is no price for free."""
        known = round(sum(p.per_hour or 0.0 for p in self.parts), 6)
        return None if self.unknown and not known else known

    @property
    def window(self) -> float | None:
        """Dollars for the whole window, with what is paid once a boot; None as above."""
        if self.per_hour is None:
            return None
        return round(self.per_hour * self.window_s / 3600 + sum(p.once or 0.0 for p in self.parts), 4)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the parts whose price is unknown."""
        return tuple(p.name for p in self.parts if p.per_hour is None and p.once is None)


def cost(
    catalog: Catalog,
    machine: MachineType,
    model: Model,
    image_gib: float | None,
    *,
    region: str,
    provisioning: str,
    egress: str,
    disk_gb: int,
    disk_type: str,
    window_s: int,
    billed: Sequence[tuple[str, str, float]] = (),
    machines: int = 1,
) -> Cost:
    """All parts of a machine of one cloud, in one region. `image_gib`: what a boot moves of an image; None is unknown.

    A cloud has a price for the whole machine, or one for each of its accelerators; where the catalog has neither, the whole
    machine's is what it lacks. `billed`: name, price item, units an hour. `machines`: how many of them run.
    """
    each = any(row.item == machine.accelerator for row in catalog.prices) and all(
        row.item != machine.name for row in catalog.prices
    )
    item, count = (machine.accelerator, machine.accelerators) if each else (machine.name, 1)
    name = f"{count} x {item}" if each else f"{item}, {provisioning.replace('_', '-')}"
    name = f"{machines} x {name}" if machines > 1 else name
    parts = [_of(catalog, name, item, machines * count, region, provisioning)]
    disk = f"{disk_gb} GB {disk_type}" + (f" each, {machines} of them" if machines > 1 else "")
    parts.append(_of(catalog, disk, disk_type, machines * disk_gb / 730, region))
    parts += [_of(catalog, label, item, count, region) for label, item, count in billed]
    if egress == "address":
        parts.append(_of(catalog, "external address", f"{machine.cloud}-external-address", 1, region))
    if egress == "nat":
        parts += _nat(catalog, machine.cloud, region, image_gib, model)
    return Cost(tuple(parts), window_s)


def once(
    catalog: Catalog, name: str, cloud: str, *, region: str, provisioning: str, disk_gb: int, disk_type: str, address: bool
) -> Cost:
    """What a machine without an accelerator costs an hour that does one job and is gone. The window is not known here: 0."""
    parts = [
        _of(catalog, f"{name}, {provisioning.replace('_', '-')}", name, 1, region, provisioning),
        _of(catalog, f"{disk_gb} GB {disk_type}", disk_type, disk_gb / 730, region),
    ]
    if address:
        parts.append(_of(catalog, "external address", f"{cloud}-external-address", 1, region))
    return Cost(tuple(parts), 0)


def first(catalog: Catalog, name: str, item: str, seconds: int, region: str) -> Part:
    """What is paid once, by the hour of an item, where it is not there yet: no part of the sums."""
    part = _of(catalog, f"{name}, {words(seconds)}" if seconds else name, item, seconds / 3600, region)
    known = part.per_hour if seconds else None
    return Part(part.name, None, known, part.source, part.evidence and "inferred", part.why)  # the time is that of one run


def stay(catalog: Catalog, name: str, item: str, units: float | None, region: str) -> Stay:
    """So many units of an item of the catalog, by the month; None is an unknown number."""
    price = catalog.price(item, region=region)
    if price is None:
        return Stay(name, None, "", "", _lack(catalog, item, region, ""))
    month = None if units is None else round(price.usd * units, 2)
    return Stay(name, month, f"{price.source}, {price.date}", price.evidence, "" if units is not None else "its size is not known")


def _nat(catalog: Catalog, cloud: str, region: str, image_gib: float | None, model: Model) -> list[Part]:
    """What a NAT bills an hour, in the cloud's own parts, and for what a boot moves through it."""
    prefix = f"{cloud}-nat-"
    items = sorted({row.item for row in catalog.prices if row.item.startswith(prefix) and row.unit == "hour"})
    parts = [_of(catalog, f"NAT, {NAT_PARTS[item.removeprefix(prefix)]}", item, 1, region) for item in items]
    data = catalog.price(f"{prefix}data", region=region)
    known = data is not None and image_gib is not None and model.weights_gb is not None
    gib = (image_gib or 0) + (model.weights_gb or 0) * 1e9 / (1 << 30)
    once = round(data.usd * gib, 4) if data is not None and known else None
    what = "image and weights" if image_gib != 0 else "weights"
    return [*parts, Part(f"NAT, {what}", None, once, data.source if data else "", data.evidence if data else "")]


def _of(catalog: Catalog, name: str, item: str, count: float, region: str, provisioning: str = "") -> Part:
    """So many of an item of the catalog, by the hour."""
    price = catalog.price(item, region=region, provisioning=provisioning)
    if price is None:
        return Part(name, None, None, "", "", _lack(catalog, item, region, provisioning))
    return Part(name, round(price.usd * count, 6), None, f"{price.source}, {price.date}", price.evidence)


def _lack(catalog: Catalog, item: str, region: str, provisioning: str) -> str:
    """What the catalog has of an item whose price it lacks here: a price of elsewhere is no price of here."""
    rows = [row for row in catalog.prices if row.item == item]
    way = provisioning.replace("_", "-")
    if not rows:
        return f"the catalog has no price of {item}"
    here = [row for row in rows if not row.regions or region in row.regions]
    if here:
        return f"the catalog has no {way} price of {item} in {region}"
    known = sorted({place for row in rows if row.provisioning in ("", provisioning) for place in row.regions})
    elsewhere = f", only in {', '.join(known)}" if known else ""
    return f"the catalog has no price of {item} in {region}{elsewhere}"
