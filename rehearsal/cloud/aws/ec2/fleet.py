"""The machines behind the instances. Nothing here waits for a machine with the cloud's lock held: a machine calls back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rehearsal.cloud.aws.ec2 import bodies, network
from rehearsal.cloud.aws.ec2.guest import GuestView
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest
from rehearsal.cloud.aws.state import State
from rehearsal.contracts import Machine, MachineFactory, MachineSpec


@dataclass
class Body:
    """What belongs to one instance besides moto's: the machine and its view of the cloud."""

    guest: GuestView
    machine: Machine | None = None


class Fleet:
    """Machines by instance id."""

    def __init__(self, state: State, factory: MachineFactory | None, front: Callable[[HttpRequest], HttpAnswer]) -> None:
        self._state, self._factory, self._front = state, factory, front
        self._bodies: dict[str, Body] = {}
        self._lock = threading.Lock()

    def power_on(self, instance_id: str) -> None:
        """The instance is running: boot its machine, made at the first time."""
        with self._state.lock:
            instance = bodies.find(self._state, instance_id)
            if instance is None:
                return
            with self._lock:
                body = self._bodies.setdefault(instance_id, Body(GuestView(self._state, instance_id, self._front)))
            root = next((v for _, v in instance.get_block_device_mapping), None)
            spec = MachineSpec(
                name=instance_id,
                guest=body.guest,
                disk_gb=int(root.size) if root is not None else 8,
                flavour="ec2",
                egress=network.egress(self._state, instance),
                private_google_access=network.s3_endpoint(self._state, instance),
            )
        if self._factory is None:
            return
        machine = body.machine or self._factory(spec)
        with self._lock:
            wanted = self._bodies.get(instance_id) is body
            body.machine = machine
        if wanted:
            machine.start()
            self._state.agents.came(instance_id)
        else:  # the instance went while its machine was made
            machine.delete()

    def power_off(self, instance_id: str) -> None:
        """The cloud switches it off; its disk stays."""
        if (machine := self.machine(instance_id)) is not None:
            machine.power_cut()

    def reboot(self, instance_id: str) -> None:
        """An orderly reboot."""
        if (machine := self.machine(instance_id)) is not None:
            machine.reboot()

    def delete(self, instance_id: str) -> None:
        """Gone with its disk. Already gone is success."""
        with self._lock:
            body = self._bodies.pop(instance_id, None)
        if body is not None and body.machine is not None:
            body.machine.delete()

    def delete_all(self) -> None:
        """Every machine."""
        with self._lock:
            every = list(self._bodies)
        for instance_id in every:
            self._state.agents.gone(instance_id)
            self.delete(instance_id)

    def machine(self, instance_id: str) -> Machine | None:
        """Its machine; None before it ran, and without a factory."""
        with self._lock:
            body = self._bodies.get(instance_id)
        return body.machine if body is not None else None

    def machines(self) -> Mapping[str, Machine]:
        """By instance id."""
        with self._lock:
            return {i: b.machine for i, b in self._bodies.items() if b.machine is not None}

    def guest(self, instance_id: str) -> GuestView | None:
        """Its view of the cloud; None before it ran."""
        with self._lock:
            body = self._bodies.get(instance_id)
        return body.guest if body is not None else None

    def console(self, instance_id: str) -> str:
        """The serial console so far."""
        machine = self.machine(instance_id)
        return machine.log() if machine is not None else ""
