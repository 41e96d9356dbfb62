"""What the local cloud offers.

Zones, machine types, disk types, images; rows with their source, from `inventory.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files


@dataclass(frozen=True)
class MachineType:
    """A creatable machine type. `boot_disks` are the disk types that it takes, the first one by default."""

    name: str
    vcpu: int
    memory_mb: int
    zones: tuple[str, ...]
    boot_disks: tuple[str, ...]
    tpu: bool


@dataclass(frozen=True)
class Image:
    """A public image. The newest of a family is what the family means."""

    project: str
    name: str
    family: str
    disk_gb: int


@dataclass(frozen=True)
class Inventory:
    """All of it."""

    zones: tuple[str, ...]
    machine_types: tuple[MachineType, ...]
    disk_types: tuple[str, ...]
    images: tuple[Image, ...]

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """The regions of the zones."""
        return tuple(dict.fromkeys(region_of(zone) for zone in self.zones))

    def machine_type(self, name: str, zone: str) -> MachineType | None:
        """The type in that zone, or None."""
        return next((m for m in self.machine_types if m.name == name and zone in m.zones), None)

    def image(self, project: str, name: str) -> Image | None:
        """By name."""
        return next((i for i in self.images if (i.project, i.name) == (project, name)), None)

    def family(self, project: str, family: str) -> Image | None:
        """The newest of a family."""
        found = [i for i in self.images if (i.project, i.family) == (project, family)]
        return max(found, key=lambda i: i.name) if found else None


def region_of(zone: str) -> str:
    """`us-central1` of `us-central1-b`."""
    return zone.rsplit("-", 1)[0]


def load() -> Inventory:
    """Read the data file."""
    raw = tomllib.loads(files("rehearsal.cloud.google").joinpath("inventory.toml").read_text())
    zones = tuple(row["name"] for row in raw["zone"])
    return Inventory(
        zones=zones,
        machine_types=tuple(
            MachineType(
                name=row["name"],
                vcpu=row["vcpu"],
                memory_mb=row["memory_gib"] * 1024,
                zones=_zones(row["zones"], zones),
                boot_disks=tuple(row["boot_disks"]),
                tpu=row.get("tpu", False),
            )
            for row in raw["machine_type"]
        ),
        disk_types=tuple(row["name"] for row in raw["disk_type"]),
        images=tuple(Image(row["project"], row["name"], row["family"], row["disk_gb"]) for row in raw["image"]),
    )


def _zones(value: Sequence[str], every: tuple[str, ...]) -> tuple[str, ...]:
    return every if list(value) == ["*"] else tuple(value)
