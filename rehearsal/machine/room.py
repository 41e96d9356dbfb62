"""Where a rehearsal's machines stand: one work folder, one authority, one image registry, one way to make a machine."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from rehearsal.contracts import HostInventory, Machine, MachineSpec
from rehearsal.machine import assets, authority, conf, kernel, making, software
from rehearsal.machine.booted import BootedMachine, Layers
from rehearsal.machine.capable import missing
from rehearsal.machine.fakes import hub, packages, registry
from rehearsal.machine.faults import Behaviour
from rehearsal.machine.images import ImageRegistry
from rehearsal.machine.sandbox.images import SandboxImages
from rehearsal.machine.sandbox.machine import SandboxMachine, write_conf
from rehearsal.machine.sandbox.machine import lacking as sandbox_lacks
from rehearsal.machine.sweep import sweep
from verdict.errors import FlexserveError

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-west-1", "ap-northeast-1")
# A certificate's star stands for one label: services, their APIs below `api.`, and each account's own registry.
AWS_NAMES = tuple(f"*.{below}{region}.amazonaws.com" for region in REGIONS for below in ("", "ecr.", "dkr.ecr."))
NAMES = ("*.googleapis.com", "*.pkg.dev", *AWS_NAMES, *making.HOSTS, hub.HOST, hub.CDN, packages.HOST, *registry.NAMES)


class MachineRoom:
    """Makes machines (`room(spec)`, a `MachineFactory`) and cleans up after them. Use it as a context manager.

    `work` is the folder for everything (default: a new one in `$FLEXSERVE_STATE` or the temporary folder). `behaviour` may be
    changed at any time and holds for all machines. `kind`: best takes a sandbox where no machine can be booted; after
    entering it is what it became, `booted` or `sandbox`, and `why_sandbox` says what was missing.
    """

    def __init__(
        self,
        work: Path | None = None,
        behaviour: Behaviour | None = None,
        *,
        kind: Literal["best", "booted", "sandbox"] = "best",
    ) -> None:
        self.kind = kind
        self._own = work is None
        self.work = (work or Path(tempfile.mkdtemp(prefix="machines-", dir=os.environ.get("FLEXSERVE_STATE")))).resolve()
        self.behaviour = behaviour or Behaviour()
        self.machines: dict[str, Machine] = {}
        self.why_sandbox = ""
        self._assets: assets.Assets | None = None
        self._images: ImageRegistry | SandboxImages | None = None
        self._making = threading.RLock()  # machines are made in several threads
        self._layers: dict[str, Layers] = {}

    def __enter__(self) -> Self:
        """Sweep what a killed run left, make the authority. Raises `FlexserveError` with what a booted machine lacks."""
        self._settle_kind()
        sweep(self.work / "machines")
        (self.work / "machines").mkdir(parents=True, exist_ok=True)
        authority.make(self.work / "certificates", NAMES)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Delete every machine, stop the registry, sweep. Safe to call twice."""
        with ExitStack() as stack:  # each is tried, whatever became of the others
            stack.callback(sweep, self.work / "machines")
            if self._images is not None:
                stack.callback(self._images.close)
                self._images = None
            for machine in self.machines.values():
                stack.callback(machine.delete)
        shutil.rmtree(self.work if self._own else self.work / "machines", ignore_errors=True)

    @property
    def images(self) -> ImageRegistry | SandboxImages:
        """The image registry on this host's loopback, started when first asked for."""
        with self._making:
            if self._images is None:
                folder = self.work / "registry"
                folder.mkdir(parents=True, exist_ok=True)
                built = self._assets
                self._images = ImageRegistry(folder, built.root, built.images) if built else SandboxImages(folder)
            return self._images

    def __call__(self, spec: MachineSpec) -> Machine:
        """A machine that is not yet on. Names are the cloud's; a deleted machine's name may be used again."""
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", spec.name):
            raise ValueError(f"{spec.name!r} is no host name")
        if spec.flavour not in conf.FLAVOURS:
            raise FlexserveError(f"no machine of flavour {spec.flavour} is rehearsed", way_out=f"one of {', '.join(conf.FLAVOURS)}")
        if spec.flavour != "gce" and not self._assets:
            raise FlexserveError(
                f"a sandbox is no {spec.flavour} machine", why=self.why_sandbox, way_out="rehearse as root on Debian or Ubuntu"
            )
        with self._making:
            number = sum(1 for name in self.machines if name.split("#")[0] == spec.name)
            key = f"{spec.name}#{number}" if number else spec.name
            make = BootedMachine if self._assets else SandboxMachine
            machine = make(spec, self.work / "machines" / key, self._shared(spec.flavour), self.behaviour)
            self.machines[key] = machine
            return machine

    def inventory(self) -> HostInventory:
        """What all machines of this room have on this host; empty after leaving."""
        return kernel.inventory(self.work / "machines", "no machine has this name")

    def _settle_kind(self) -> None:
        lacking = [] if self.kind == "sandbox" else missing()
        if self.kind == "booted" and lacking:
            raise FlexserveError("no machine can be booted here", why="; ".join(lacking), way_out="run as root on Debian or Ubuntu")
        if self.kind != "sandbox" and not lacking:
            self.kind, self._assets = "booted", assets.locate()
            return
        if nothing := sandbox_lacks():
            raise FlexserveError("neither a machine nor a sandbox can be had here", why="; ".join(lacking + nothing))
        self.kind, self.why_sandbox = "sandbox", "; ".join(lacking)

    def _shared(self, flavour: str) -> Layers:
        if flavour not in self._layers:
            certificates, layer = self.work / "certificates", self.work / f"conf-{flavour}"
            authority_file = (certificates / "ca.crt").read_bytes()
            if self._assets:
                conf.write(layer, self._assets.root, authority_file, flavour)
                extra = software.docker(self._assets.repo) if flavour == "container" else None
                made = Layers(self._assets.root, layer, self._assets.repo, self.images.storage, certificates, extra)
            else:
                write_conf(layer, authority_file)
                made = Layers(None, layer, layer, self.images.storage, certificates)
            self._layers[flavour] = made
        return self._layers[flavour]
