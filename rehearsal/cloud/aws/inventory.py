"""What the local AWS offers: images, spot prices, quotas; rows with their source, from `inventory.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Image:
    """A public machine image. `parameter` is the SSM public parameter that names the newest published of its line."""

    id: str
    name: str
    architecture: str
    root_gb: int
    parameter: str
    published: bool


@dataclass(frozen=True)
class Quota:
    """vCPUs that may run at once of families of instance types, as spot or on demand."""

    code: str
    service: str
    name: str
    value: float
    families: tuple[str, ...]
    spot: bool

    def covers(self, instance_type: str, *, spot: bool) -> bool:
        """Whether instances of this type count: the letters before the generation's number are the family."""
        family = re.match(r"[a-z]+", instance_type)
        return spot == self.spot and family is not None and family.group(0) in self.families


@dataclass(frozen=True)
class HostImage:
    """A host image of SageMaker's (`InferenceAmiVersion`), and the CUDA that its driver has. No name: where none is asked for."""

    name: str
    driver: str
    cuda: str


@dataclass(frozen=True)
class Inventory:
    """All of it."""

    images: tuple[Image, ...]
    spot_prices: dict[str, float]
    """US dollars an hour by instance type."""
    quotas: tuple[Quota, ...]
    managed_policies: tuple[str, ...]
    host_images: tuple[HostImage, ...] = ()
    endpoint_quota: int = 4
    """Instances of one type for endpoints; the number is our own."""


def load() -> Inventory:
    """Read the data file."""
    raw = tomllib.loads(files("rehearsal.cloud.aws").joinpath("inventory.toml").read_text())
    return Inventory(
        images=tuple(
            Image(r["id"], r["name"], r["architecture"], r["root_gb"], r["parameter"], r["published"]) for r in raw["image"]
        ),
        spot_prices={r["instance_type"]: r["usd_per_hour"] for r in raw["spot_price"]},
        quotas=tuple(
            Quota(r["code"], r["service"], r["name"], float(r["value"]), tuple(r["families"]), r["spot"]) for r in raw["quota"]
        ),
        managed_policies=tuple(r["name"] for r in raw["managed_policy"]),
        host_images=tuple(HostImage(r["name"], r["driver"], r["cuda"]) for r in raw["host_image"]),
    )
