"""Finds targets by their folder: `infra/targets/KIND/`. Nothing else lists them."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import infra.targets

if TYPE_CHECKING:
    from catalog.rows import BuilderType, HostImage, MachineType
    from infra.access import Program
    from infra.rules.rule import Rule
    from infra.targets.protocol import LiveTarget


class TargetConfig(Protocol):
    """What the plan asks of any target's config."""

    cloud: ClassVar[str]
    service: ClassVar[str]
    without: ClassVar[Mapping[str, str]]
    optional: ClassVar[frozenset[str]]
    reads_image: ClassVar[bool]
    server_host: ClassVar[str | None]
    server_port: ClassVar[int | None]

    @property
    def provider(self) -> Mapping[str, str]:
        """Keys of the provider's own in the stack file that have to say the same."""

    @property
    def provisioning(self) -> str:
        """How machines are asked for, in the catalog's words."""

    @property
    def catalogued(self) -> bool:
        """Whether the container image has to be one of the catalog's."""

    @property
    def ways(self) -> tuple[str, ...]:
        """How a machine of this stack may have been asked for: one way, or several where a place may be of another."""

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
        """Where to ask, in order of preference: zones, and what else tells two tries apart."""

    def region_of(self, place: str) -> str:
        """The region that a place lies in; prices are by region."""

    def zone(self, place: str) -> str:
        """The zone that a place lies in."""

    def size(self, place: str) -> str:
        """The machine type of a place, where places differ in it."""

    def quota_of(self, place: str) -> str:
        """Which quota a machine counts against in a place: a name that such places share."""

    @property
    def machines(self) -> tuple[int, int]:
        """The fewest and the most machines that bill."""

    def host(self, cuda: str, rows: Iterable[HostImage]) -> str:
        """The host image to begin with, for a container image of that CUDA version."""

    @property
    def server_version(self) -> str:
        """The vLLM release that is built, where no image tells."""

    def beside_gb(self, memory_gib: float) -> float:
        """GB on the boot disk beside image and weights."""

    @property
    def builder(self) -> str:
        """The machine type that makes the server's build, on a machine of its own; empty where none does."""

    @property
    def builder_way(self) -> str:
        """How that machine is asked for first."""

    @property
    def builder_gb(self) -> int:
        """That machine's disk, GB."""

    def making_minutes(self, machine: MachineType | BuilderType, images: Iterable[HostImage]) -> float | None:
        """Minutes that the machine compiles a server; None where it does not, or nobody knows."""

    @property
    def firsts(self) -> tuple[tuple[str, str, str], ...]:
        """What is paid for once: name, price item, part of a start."""

    def stays(self, image_gib: float | None) -> tuple[tuple[str, str, float | None], ...]:
        """What stays after `down`: name, price item, units a month."""

    @property
    def starts(self) -> tuple[str, ...]:
        """The parts of a start that pass inside the window, by the catalog's names."""

    @property
    def billed(self) -> tuple[tuple[str, str, float], ...]:
        """What else bills: name, price item, units an hour."""

    def model_dump(self) -> dict[str, object]:
        """All keys and values."""


def kinds() -> tuple[str, ...]:
    """The kinds of target there are, in alphabetical order."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(infra.targets.__path__) if m.ispkg))


def module(kind: str, file: str) -> ModuleType:
    """One of a target's four files: `config`, `resources`, `live` or `access`."""
    return importlib.import_module(f"infra.targets.{kind}.{file}")


def rules(kind: str) -> tuple[Rule, ...]:
    """The rules that a target adds: `RULES` of its `rules`, where it has one. They hold for its own kind only."""
    found: tuple[Rule, ...] = ()
    if importlib.util.find_spec(f"infra.targets.{kind}.rules"):
        found = tuple(module(kind, "rules").RULES)
    return found


def builder(kind: str) -> ModuleType | None:
    """A target's `builder`, where it has one: what makes its server once, on a machine of its own."""
    name = f"infra.targets.{kind}.builder"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def yours(kind: str) -> ModuleType | None:
    """A target's `yours`, where it has one: looks up what the stack file names as the operator's own."""
    name = f"infra.targets.{kind}.yours"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def programs(kind: str) -> tuple[Program, ...]:
    """What the target's way in needs on the operator's PATH: `PROGRAMS` of its `access`, where it has any."""
    return tuple(getattr(module(kind, "access"), "PROGRAMS", ()))


def live(kind: str, settings: Mapping[str, object]) -> LiveTarget:
    """The running side of a target: its `live.connect`. Makes no call yet.

    `settings` are the target's keys of the stack file, and over them the stack's outputs (what was chosen at create wins).
    """
    return cast("LiveTarget", module(kind, "live").connect(settings))
