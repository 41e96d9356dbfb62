"""The machines behind the instances, what they see of the cloud, and external addresses.

Nothing here is called with the state's lock held while it waits for a machine: a machine calls back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rehearsal.cloud.google.call import Json
from rehearsal.cloud.google.guest import GuestView
from rehearsal.cloud.google.state import State, unlink
from rehearsal.contracts import Machine, MachineFactory, MachineSpec

ENABLED = "enable-guest-attributes"


class Addresses:
    """External addresses, from a block kept for documentation."""

    def __init__(self) -> None:
        self._free = [f"203.0.113.{n}" for n in range(7, 255)]
        self._lock = threading.Lock()

    def take(self) -> str:
        """The lowest free one."""
        with self._lock:
            return self._free.pop(0)

    def give_back(self, address: str) -> None:
        """Free again."""
        with self._lock:
            if address and address not in self._free:
                self._free = sorted([*self._free, address], key=lambda a: int(a.rsplit(".", 1)[-1]))


@dataclass
class Body:
    """What belongs to one instance besides its resource: the machine, its view of the cloud, what it reported."""

    instance_id: str
    guest: GuestView
    machine: Machine | None = None
    attributes: dict[tuple[str, str], str] = field(default_factory=dict)
    console: str = ""


class Fleet:
    """Machines by the path of their instance."""

    def __init__(
        self,
        state: State,
        factory: MachineFactory | None,
        secret: Callable[[str, str], tuple[int, Mapping[str, object]]],
    ) -> None:
        self._state = state
        self._factory = factory
        self._secret = secret
        self._bodies: dict[str, Body] = {}
        self._lock = threading.Lock()
        self.addresses = Addresses()

    def power_on(self, path: str) -> None:
        """The instance is RUNNING: boot its machine, made at the first time."""
        with self._state.lock:
            instance = self._state.compute.get(path)
            if instance is None:
                return
            body = self._body(path, instance)
            spec = self._spec(instance, body.guest)
        if self._factory is None:
            return
        machine = body.machine or self._factory(spec)
        with self._lock:
            wanted = self._bodies.get(path) is body
            body.machine = machine
        if wanted:
            machine.start()
        else:  # the instance went while its machine was made
            machine.delete()

    def _body(self, path: str, instance: Json) -> Body:
        with self._lock:
            body = self._bodies.get(path)
            if body is None or body.instance_id != instance["id"]:
                guest = GuestView(self._state, path, instance["id"], self._secret)
                body = self._bodies[path] = Body(instance["id"], guest)
            return body

    def _spec(self, instance: Json, guest: GuestView) -> MachineSpec:
        nic = instance["networkInterfaces"][0]
        subnet = self._state.compute.get(unlink(nic["subnetwork"]), {})
        boot = next(disk for disk in instance["disks"] if disk.get("boot"))
        return MachineSpec(
            name=instance["name"],
            guest=guest,
            disk_gb=int(boot["diskSizeGb"]),
            flavour="gce",
            egress=bool(nic.get("accessConfigs")) or self._has_nat(nic["network"], subnet),
            private_google_access=bool(subnet.get("privateIpGoogleAccess")),
        )

    def _has_nat(self, network: str, subnet: Json) -> bool:
        return any(
            router.get("nats") and router["network"] == network and router["region"] == subnet.get("region")
            for router in self._state.children(f"projects/{self._state.project}/regions/")
            if router["kind"] == "compute#router"
        )

    def _get(self, path: str) -> Body | None:
        with self._lock:
            return self._bodies.get(path)

    def power_off(self, path: str) -> None:
        """The cloud switches it off; its disk stays."""
        body = self._get(path)
        if body is not None and body.machine is not None:
            body.machine.power_cut()

    def reset(self, path: str) -> None:
        """Power cut and on again."""
        self.power_off(path)
        self.power_on(path)

    def delete(self, path: str) -> None:
        """Gone with its disk. Already gone is success."""
        with self._lock:
            body = self._bodies.pop(path, None)
        if body is not None:
            body.guest.close()
            if body.machine is not None:
                body.machine.delete()

    def delete_all(self) -> None:
        """Every machine."""
        with self._lock:
            paths = list(self._bodies)
        for path in paths:
            self.delete(path)

    def changed(self, path: str) -> None:
        """Its metadata changed: wake who waits for that."""
        body = self._get(path)
        if body is not None:
            body.guest.wake()

    def machines(self) -> Mapping[str, Machine]:
        """By instance name."""
        with self._lock:
            return {path.rsplit("/", 1)[-1]: b.machine for path, b in self._bodies.items() if b.machine is not None}

    def guest(self, path: str) -> GuestView | None:
        """A machine's view of the cloud; None before it ran."""
        body = self._get(path)
        return None if body is None else body.guest

    def guest_attributes(self, path: str) -> Mapping[tuple[str, str], str]:
        """What the machine reported, by (namespace, key)."""
        body = self._get(path)
        return {} if body is None else body.guest.reported()

    def console(self, path: str) -> str:
        """The serial console so far."""
        body = self._get(path)
        if body is None or body.machine is None:
            return ""
        return body.machine.log()
