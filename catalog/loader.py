"""Reads the catalog's TOML files. The only place that opens them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from catalog import kept, rows
from verdict.errors import BadConfig

R = TypeVar("R", bound=rows.Row)
HERE = Path(__file__).parent


class Tables(Struct, frozen=True):
    """The files as they are: one field a file, which holds one table of that name or its singular."""

    accelerators: tuple[rows.Accelerator, ...]
    machine_types: tuple[rows.MachineType, ...]
    disk_types: tuple[rows.DiskType, ...]
    provisioning: tuple[rows.Provisioning, ...]
    zones: tuple[rows.Zone, ...]
    prices: tuple[rows.Price, ...]
    models: tuple[rows.Model, ...]
    images: tuple[rows.Image, ...]
    host_images: tuple[rows.HostImage, ...]
    builder_types: tuple[rows.BuilderType, ...]
    boots: tuple[rows.Boot, ...]


class Catalog(Struct, frozen=True):
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
    builder_types: Mapping[str, rows.BuilderType]
    boots: tuple[rows.Boot, ...]

    @staticmethod
    @cache
    def load() -> Catalog:
        """The shipped catalog. Raises `BadConfig` that names the file and row when a row does not fit its shape."""
        tables = load_tables()
        return Catalog(
            accelerators={r.name: r for r in tables.accelerators},
            machine_types={r.name: r for r in tables.machine_types},
            disk_types={r.name: r for r in tables.disk_types},
            provisionings={r.name: r for r in tables.provisioning},
            zones=tables.zones,
            prices=tables.prices,
            models={r.name: r for r in tables.models},
            images=tables.images,
            host_images=tables.host_images,
            builder_types={r.name: r for r in tables.builder_types},
            boots=tables.boots,
        )

    def price(self, item: str, *, region: str = "", provisioning: str = "") -> rows.Price | None:
        """The price row that applies there, or None: an unknown price is unknown."""
        for row in self.prices:
            if row.item == item and row.provisioning in ("", provisioning) and (not row.regions or region in row.regions):
                return row
        return None

    def boot(self, target: str, parts: Iterable[str]) -> tuple[rows.Boot, ...]:
        """The rows of these parts of a target's start, in their order; fewer where nobody recorded one."""
        return tuple(row for part in parts for row in self.boots if (row.target, row.part) == (target, part))

    def image(self, repository: str, tag: str | None) -> rows.Image | None:
        """The row of a repository's tag. Without a tag (pinned by digest) what the repository's first row says of all its images.

        That is their size, about, and the cards that they are made for: version, CUDA and kernels are each image's own.
        """
        found = next((i for i in self.images if _same(i.repository, repository) and tag in (None, i.tag)), None)
        return replace(found, tag="", vllm="", cuda="", kernels=()) if found is not None and tag is None else found


def _same(row: str, repository: str) -> bool:
    """Whether a row's repository is the one asked for, in whichever region."""
    head, sign, tail = row.partition("{region}")
    if not sign:
        return row == repository
    middle = repository[len(head) : len(repository) - len(tail)]
    return repository == f"{head}{middle}{tail}" and middle.replace("-", "").isalnum()


def load_tables() -> Tables:
    """Every file of the catalog, from its kept form where that is of the same contents."""
    files = {file: (HERE / f"{file}.toml").read_bytes() for file in Tables.__struct_fields__}
    place = kept.folder() / kept.name(files)
    if (content := kept.read(place)) is not None:
        try:
            return msgspec.msgpack.decode(content, type=Tables)
        except msgspec.MsgspecError:
            pass  # made by a version whose rows have another shape
    shapes = {file: get_args(hint)[0] for file, hint in get_type_hints(Tables).items()}
    tables = Tables(**{file: read(file, file.removesuffix("s"), shapes[file], files[file].decode()) for file in files})
    kept.write(place, msgspec.msgpack.encode(tables))
    return tables


def read(file: str, table: str, shape: type[R], text: str | None = None) -> tuple[R, ...]:
    """The rows of one file, each checked against `shape`. `text` replaces the file's (for tests and added catalogs)."""
    import tomllib

    content = text if text is not None else (HERE / f"{file}.toml").read_text(encoding="utf-8")
    try:
        return msgspec.convert(tomllib.loads(content).get(table, []), tuple[shape, ...])  # type: ignore[valid-type]
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"catalog/{file}.toml does not load", why=str(error)) from error
