"""A stage: one target's local cloud with everything around it, started and stopped as one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import rehearsal.targets
from rehearsal.contracts import Fault, LocalCloud
from rehearsal.machine.faults import Behaviour
from verdict.errors import BadConfig


@dataclass(frozen=True)
class Part:
    """A part of the rehearsal, for the verdict: is it the real one, and which. `real` None: there was none."""

    real: bool | None
    name: str
    version: str = ""
    why: str = ""  # why a stand-in stands in

    def as_dict(self) -> dict[str, object]:
        """The `parts` entry of the contract."""
        return {
            "is": {True: "real", False: "stand-in", None: "none"}[self.real],
            "name": self.name,
            "version": self.version,
            "why": self.why,
        }


class Stage(AbstractContextManager["Stage"], Protocol):
    """What `Rehearsal` asks of a target's set-up. Entering starts it, leaving stops it and cleans up."""

    cloud: LocalCloud

    def environment(self) -> Mapping[str, str]:
        """Variables for the product's commands: endpoints, credentials, trust."""

    def stack_config(self) -> Mapping[str, str]:
        """Pulumi configuration keys that point the providers at the local cloud."""

    def settings(self) -> Sequence[str]:
        """`KEY=VALUE` that fill in the shipped stack file's placeholders."""

    def arm(self, fault: Fault) -> None:
        """Break what the fault breaks, before the first command."""

    def held(self) -> Mapping[str, float]:
        """Seconds that stand-ins held on purpose, by phase."""

    def parts(self) -> Mapping[str, Part]:
        """Which parts were real."""

    def host_left(self) -> Sequence[str]:
        """What this rehearsal has on the host, as the kernel tells it, in words. Empty after leaving."""


@runtime_checkable
class HasBuild(Protocol):
    """A stage whose stack serves from a build, which `flexserve build` makes."""

    def keep_build(self) -> None:
        """The build was made before: it is kept where the stack file says."""


class HasMachines(Protocol):
    """A stage whose machines' stand-ins can be made to misbehave."""

    behaviour: Behaviour


def kinds() -> tuple[str, ...]:
    """The kinds of target that can be rehearsed."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(rehearsal.targets.__path__)))


def stage(kind: str, folder: Path) -> Stage:
    """The stage of a kind of target, not yet started. `folder` is where it may keep files while it runs."""
    if kind not in kinds():
        raise BadConfig(f"there is no rehearsal of {kind} yet", way_out=f"one of {', '.join(kinds()) or 'none'}")
    return cast("Stage", importlib.import_module(f"rehearsal.targets.{kind}").stage(folder))
