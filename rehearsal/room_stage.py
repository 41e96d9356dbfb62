"""What every stage with a room of machines does alike: start from the inside out, tell what was held and what is left, stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from rehearsal.backstage import NOTHING_LEAVES, OperatorsHub, by_phase, host_words
from rehearsal.contracts import Fault, LocalCloud
from rehearsal.machine.booted import BootedMachine
from rehearsal.machine.faults import Behaviour
from rehearsal.machine.room import MachineRoom


class RoomStage(ABC):
    """Everything around one local account or project. Entering starts it, leaving stops it."""

    cloud: LocalCloud

    def __init__(self, folder: Path, behaviour: Behaviour) -> None:
        self.folder, self.behaviour = folder, behaviour
        self.room: MachineRoom
        self._stack = ExitStack()
        self._environment: dict[str, str] = {}
        self._held: dict[str, float] = {}

    @abstractmethod
    def _start(self, stack: ExitStack) -> Mapping[str, str]:
        """Start the cloud, as `self.cloud`, and what is around it, in the room that is open by now.

        The variables that the operator needs for it, beyond the cloud's own.
        """

    def __enter__(self) -> Self:
        """Start the machine room, the target's own parts, and the operator's Hub."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self.room = stack.enter_context(MachineRoom(self.folder / "machines", self.behaviour))
            ours = self._start(stack)
            hub_url = stack.enter_context(OperatorsHub())
            self._environment = {**self.cloud.environment(), **ours, "HF_ENDPOINT": hub_url, **NOTHING_LEAVES}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        """Take notes of what is lost with the machines, then stop everything."""
        self.held()
        self._stack.close()

    def environment(self) -> Mapping[str, str]:
        """Endpoints, credentials and trust for the product's commands."""
        return self._environment

    def stack_config(self) -> Mapping[str, str]:
        """Provider configuration keys."""
        return self.cloud.stack_config()

    def arm(self, fault: Fault) -> None:
        """Break it."""
        fault.apply(self)

    def held(self) -> Mapping[str, float]:
        """Seconds held on purpose, by phase, over all machines so far."""
        for machine in self.room.machines.values():
            if isinstance(machine, BootedMachine):
                self._held |= by_phase(machine.held())
        return self._held

    def host_left(self) -> Sequence[str]:
        """What machines still have on this host."""
        return host_words(self.room.inventory())
