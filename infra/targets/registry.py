"""Finds targets by their folder: `infra/targets/KIND/`. Nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import infra.targets

if TYPE_CHECKING:
    from infra.targets.protocol import LiveTarget


class TargetConfig(Protocol):
    """What the plan asks of any target's config."""

    cloud: ClassVar[str]
    provisioning: ClassVar[str]

    @property
    def kind(self) -> str:
        """The folder's name."""

    @property
    def machine_type(self) -> str:
        """A machine type of the catalog."""

    @property
    def disk_gb(self) -> int:
        """Boot disk, GB."""

    @property
    def disk_type(self) -> str:
        """Boot disk type."""

    @property
    def host_image(self) -> str:
        """Machine image or family."""

    @property
    def places(self) -> tuple[str, ...]:
        """Zones in order of preference."""

    def region(self, place: str) -> str:
        """The region that a place lies in; prices are by region."""

    def model_dump(self) -> dict[str, object]:
        """All keys and values (pydantic's)."""


def kinds() -> tuple[str, ...]:
    """The kinds of target there are, in alphabetical order."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(infra.targets.__path__) if m.ispkg))


def module(kind: str, file: str) -> ModuleType:
    """One of a target's four files: `config`, `resources`, `live` or `access`."""
    return importlib.import_module(f"infra.targets.{kind}.{file}")


def live(kind: str, settings: Mapping[str, object]) -> LiveTarget:
    """The running side of a target: its `live.connect`. Makes no call yet.

    `settings` are the target's keys of the stack file, and over them the stack's outputs (what was chosen at create wins).
    """
    return cast("LiveTarget", module(kind, "live").connect(settings))
