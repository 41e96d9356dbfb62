"""Where a rehearsal's machines stand: one work folder, one authority, one image registry, one way to make a machine."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from rehearsal.contracts import HostInventory, Machine, MachineSpec
from rehearsal.machine import assets, authority, conf, kernel
from rehearsal.machine.booted import BootedMachine, Layers
from rehearsal.machine.capable import missing
from rehearsal.machine.fakes import hub, packages, registry
from rehearsal.machine.faults import Behaviour
from rehearsal.machine.images import ImageRegistry
from rehearsal.machine.sweep import sweep
from verdict.errors import FlexserveError

NAMES = ("*.googleapis.com", "*.pkg.dev", hub.HOST, hub.CDN, packages.HOST, *registry.NAMES)


class MachineRoom:
    """Makes machines (`room(spec)`, a `MachineFactory`) and cleans up after them. Use it as a context manager.

    `work` is the folder for everything (default: a new one in `$FLEXSERVE_STATE` or the temporary folder). `behaviour` may be
    changed at any time and holds for all machines.
    """

    def __init__(self, work: Path | None = None, behaviour: Behaviour | None = None) -> None:
        self._own = work is None
        self.work = (work or Path(tempfile.mkdtemp(prefix="machines-", dir=os.environ.get("FLEXSERVE_STATE")))).resolve()
        self.behaviour = behaviour or Behaviour()
        self.machines: dict[str, Machine] = {}
        self._images: ImageRegistry | None = None
        self._layers: Layers | None = None

    def __enter__(self) -> Self:
        """Sweep what a killed run left, make the authority. Raises `FlexserveError` with what a booted machine lacks."""
        if lacking := missing():
            raise FlexserveError("no machine can be booted here", why="; ".join(lacking), way_out="run as root on Debian or Ubuntu")
        self._assets = assets.locate()
        sweep(self.work / "machines")
        (self.work / "machines").mkdir(parents=True, exist_ok=True)
        authority.make(self.work / "certificates", NAMES)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Delete every machine, stop the registry, sweep. Safe to call twice."""
        for machine in list(self.machines.values()):
            machine.delete()
        if self._images is not None:
            self._images.close()
            self._images = None
        sweep(self.work / "machines")
        shutil.rmtree(self.work if self._own else self.work / "machines", ignore_errors=True)

    @property
    def images(self) -> ImageRegistry:
        """The image registry on this host's loopback, started when first asked for."""
        if self._images is None:
            folder = self.work / "registry"
            folder.mkdir(parents=True, exist_ok=True)
            self._images = ImageRegistry(folder, self._assets.root, self._assets.images)
        return self._images

    def __call__(self, spec: MachineSpec) -> Machine:
        """A machine that is not yet on. Names are the cloud's; a deleted machine's name may be used again."""
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", spec.name):
            raise ValueError(f"{spec.name!r} is no host name")
        if spec.flavour != "gce":
            raise FlexserveError(f"no machine of flavour {spec.flavour} is rehearsed", why="only gce machines are built so far")
        number = sum(1 for name in self.machines if name.split("#")[0] == spec.name)
        key = f"{spec.name}#{number}" if number else spec.name
        machine = BootedMachine(spec, self.work / "machines" / key, self._shared(), self.behaviour)
        self.machines[key] = machine
        return machine

    def inventory(self) -> HostInventory:
        """What all machines of this room have on this host; empty after leaving."""
        return kernel.inventory(self.work / "machines", "no machine has this name")

    def _shared(self) -> Layers:
        if self._layers is None:
            certificates, layer = self.work / "certificates", self.work / "conf"
            conf.write(layer, self._assets.root, (certificates / "ca.crt").read_bytes())
            self._layers = Layers(self._assets.root, layer, self._assets.repo, self.images.storage, certificates)
        return self._layers
