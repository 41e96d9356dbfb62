"""Reads the catalog's TOML files. The only place that opens them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import msgspec

from catalog import rows
from verdict.errors import BadConfig

R = TypeVar("R", bound=rows.Row)


@dataclass(frozen=True)
class Catalog:
    """All facts, by name. Look-ups that may fail return None: the caller knows the rule's name."""

    accelerators: Mapping[str, rows.Accelerator]
    machine_types: Mapping[str, rows.MachineType]
    disk_types: Mapping[str, rows.DiskType]
    provisionings: Mapping[str, rows.Provisioning]
    zones: tuple[rows.Zone, ...]
    prices: tuple[rows.Price, ...]
    models: Mapping[str, rows.Model]
    images: tuple[rows.Image, ...]
    host_images: tuple[rows.HostImage, ...]

    @staticmethod
    @cache
    def load() -> Catalog:
        """The shipped catalog. Raises `BadConfig` that names the file and row when a row does not fit its shape."""
        return Catalog(
            accelerators={r.name: r for r in read("accelerators", "accelerator", rows.Accelerator)},
            machine_types={r.name: r for r in read("machine_types", "machine_type", rows.MachineType)},
            disk_types={r.name: r for r in read("disk_types", "disk_type", rows.DiskType)},
            provisionings={r.name: r for r in read("provisioning", "provisioning", rows.Provisioning)},
            zones=read("zones", "zone", rows.Zone),
            prices=read("prices", "price", rows.Price),
            models={r.name: r for r in read("models", "model", rows.Model)},
            images=read("images", "image", rows.Image),
            host_images=read("host_images", "host_image", rows.HostImage),
        )

    def price(self, item: str, *, region: str = "", provisioning: str = "") -> rows.Price | None:
        """The price row that applies there, or None: an unknown price is unknown."""
        for row in self.prices:
            if row.item == item and row.provisioning in ("", provisioning) and (not row.regions or region in row.regions):
                return row
        return None

    def image(self, repository: str, tag: str | None) -> rows.Image | None:
        """The row of a repository's tag; without a tag (pinned by digest) the repository's first row."""
        return next((i for i in self.images if _same(i.repository, repository) and tag in (None, i.tag)), None)


def _same(row: str, repository: str) -> bool:
    """Whether a row's repository is the one asked for, in whichever region."""
    head, sign, tail = row.partition("{region}")
    if not sign:
        return row == repository
    middle = repository[len(head) : len(repository) - len(tail)]
    return repository == f"{head}{middle}{tail}" and middle.replace("-", "").isalnum()


def read(file: str, table: str, shape: type[R], text: str | None = None) -> tuple[R, ...]:
    """The rows of one file, each checked against `shape`. `text` replaces the file's (for tests and added catalogs)."""
    content = text if text is not None else files("catalog").joinpath(f"{file}.toml").read_text(encoding="utf-8")
    try:
        return msgspec.convert(tomllib.loads(content).get(table, []), tuple[shape, ...])  # type: ignore[valid-type]
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"catalog/{file}.toml does not load", why=str(error)) from error
