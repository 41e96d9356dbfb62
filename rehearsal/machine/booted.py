"""One machine, really booted: systemd-nspawn over an overlay on its own disk, in its own network."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rehearsal.contracts import Completed, Ec2Guest, Guest, HostInventory, MachineSpec
from rehearsal.machine import inside, kernel, spawn, sweep
from rehearsal.machine.bridge import BridgeServer
from rehearsal.machine.fakes import container
from rehearsal.machine.fakes.metadata import find
from rehearsal.machine.faults import Behaviour

HERE = Path(__file__).parent
REBOOT = 133
PHASE_STARTS = re.compile(rb"flexserve: phase (\S+) starts")
GONE_WITHIN_S = 20.0
ADDRESS = "10.128.0.2"
MAC = "42:01:0a:80:00:02"


@dataclass(frozen=True)
class Layers:
    """What every machine of a run shares, all read-only to it. A sandbox has no root."""

    root: Path | None
    conf: Path
    repo: Path
    registry: Path
    certificates: Path
    software: Path | None = None  # packages that are there before the first boot, laid between conf and root


class BootedMachine:
    """`rehearsal.contracts.Machine` under systemd-nspawn. `failure` says why it went off by itself, when it did so badly."""

    kind = "booted"
    launcher = HERE / "launcher.sh"

    def __init__(self, spec: MachineSpec, folder: Path, layers: Layers, behaviour: Behaviour) -> None:
        self.spec = spec
        self.folder = folder
        self.ident = f"{spec.name[:30]}-{hashlib.sha1(str(folder).encode()).hexdigest()[:10]}"
        self.behaviour = behaviour
        self.address = _address(spec)
        self.power_ons = 0
        self.failure = ""
        self._layers = layers
        self._lock = threading.RLock()
        self._launcher: subprocess.Popen[bytes] | None = None
        self._cut = False
        self._deleted = False
        self._held: list[Mapping[str, object]] = []
        self._happening: set[str] = set()  # faults of a phase that are under way
        (folder / "out").mkdir(parents=True, exist_ok=True)
        self._bridge = BridgeServer(folder / "bridge", spec.guest, behaviour.document, self._reported)
        self._configure()

    def start(self) -> None:
        """Power on; returns once the launcher runs. A machine that is on stays as it is."""
        with self._lock:
            if self._deleted:
                raise RuntimeError(f"{self.spec.name} was deleted")
            if self.running():
                return
            self._wait_gone()
            self._cut, self.failure = False, ""
            self.power_ons += 1
            launcher = spawn.spawn(["bash", str(self.launcher)], self._environment(), self.folder / "launcher.log")
            self._launcher = launcher
            if self.spec.flavour == "ec2":  # no guest attributes: the console says where the boot is
                threading.Thread(target=self._follow, args=(launcher,), name=f"console {self.spec.name}", daemon=True).start()
            threading.Thread(target=self._watch, args=(launcher,), name=f"watch {self.spec.name}", daemon=True).start()

    def power_cut(self) -> None:
        """Everything of the machine dies at once; the disk stays as it was. Returns when the kernel has let go of it."""
        with self._lock:
            self._cut = True
            if self._launcher is not None and self._launcher.poll() is None:
                self._launcher.kill()
                self._launcher.wait()
            self._wait_gone()

    def reboot(self) -> None:
        """An orderly reboot; returns when it is on its way up again. Raises TimeoutError."""
        before = self.power_ons
        self.exec(["systemctl", "reboot"])
        self._until(lambda: self.power_ons > before and self.running(), 60, "did not come back from a reboot")

    def exec(self, argv: Sequence[str], timeout: float = 20.0) -> Completed:
        """Run a command inside, as root; ends with the machine when that goes down meanwhile."""
        deadline = time.monotonic() + timeout
        leader = self._leader(min(timeout, 10.0))
        command = [sys.executable, "-ISE", str(HERE / "enter.py"), str(leader), *argv]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env=self._exec_environment(), text=True, errors="replace",
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise TimeoutError(f"{argv[0]} ran longer than {timeout} s in {self.spec.name}") from error
        return Completed(process.returncode, out, err)

    def connect(self, port: int, timeout: float = 5.0, *, address: str = "") -> int:
        """A connected socket's descriptor to `port`, made in the machine's network: on the nic's address, or on EC2 on loopback,
        since there it is the agent in the machine that connects; or on the `address` of a container in it.
        """
        inner = kernel.launched(self._launcher.pid)[0] if self._launcher and self.running() else None
        if inner is None:
            raise ConnectionRefusedError(f"{self.spec.name} is off")
        return inside.connect(inner, address or REACHED.get(self.spec.flavour, self.address), port, timeout)

    def file(self, path: str) -> Path:
        """A file of the machine as this host sees it, while the machine is on. Raises RuntimeError when it is off."""
        return Path(f"/proc/{self._leader(0.0)}/root", path.lstrip("/"))

    def log(self) -> str:
        """The serial console so far, over all boots; the launcher's own complaints when it could not boot."""
        console = self.folder / "out" / "console.log"
        text = console.read_text(errors="replace") if console.exists() else ""
        complaints = self.folder / "launcher.log"
        return text or (complaints.read_text(errors="replace") if complaints.exists() else "")

    def running(self) -> bool:
        """Whether it is powered on."""
        launcher = self._launcher
        return launcher is not None and launcher.poll() is None

    def delete(self) -> None:
        """Power cut, then the disk and everything else it had on this host."""
        with self._lock:
            if self._deleted:
                return
            self.power_cut()
            self._held = self.held()
            self._deleted = True
            self._bridge.close()
            self._keep_logs()
            sweep.cgroups(self.ident)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _keep_logs(self) -> None:
        """The console, the launcher's and the stand-ins' complaints outlive the machine: `logs/NAME/` in the work folder."""
        kept = self.folder.parent.parent / "logs" / self.folder.name
        kept.mkdir(parents=True, exist_ok=True)
        for file in (self.folder / "out/console.log", self.folder / "launcher.log", self.folder / "registry.log"):
            if file.exists() and file.stat().st_size:
                shutil.copy(file, kept / file.name)

    def inventory(self) -> HostInventory:
        """What it has on this host, as the kernel tells it."""
        return kernel.inventory(self.folder, self.ident)

    def held(self) -> list[Mapping[str, object]]:
        """What stand-ins held on purpose so far: `what`, `start` (epoch seconds), `seconds`."""
        if self._deleted:
            return self._held
        record = self.folder / "out" / "held.jsonl"
        return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []

    def _watch(self, launcher: subprocess.Popen[bytes]) -> None:
        """Follow one power-on to its end: reboot, power off, or a cut that somebody asked for."""
        status = launcher.wait()
        with self._lock:
            if self._launcher is not launcher or self._cut or self._deleted:
                return
            if status == REBOOT:
                self.start()
                return
            self._wait_gone()
            if status != 0:
                self.failure = f"the launcher ended with {status}: {_tail(self.folder / 'launcher.log')}"
        self.spec.guest.powered_off()

    def _leader(self, timeout: float) -> int:
        """The machine's init on this host. Raises RuntimeError when the machine is off or has none in time."""
        until = time.monotonic() + timeout
        while self._launcher is not None and self.running():
            leader = self._init_of(self._launcher.pid)
            if leader is not None:
                return leader
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{self.spec.name} is off" + (f": {self.failure}" if self.failure else ""))

    def _init_of(self, launcher: int) -> int | None:
        return kernel.launched(launcher)[1]

    def _exec_environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}

    def _wait_gone(self) -> None:
        """Until no process and no loop device of an earlier power-on is left: a disk must never be mounted twice."""

        def gone() -> bool:
            left = self.inventory()
            return not (left.processes or left.mounts or left.loop_devices or left.namespaces)

        self._until(gone, GONE_WITHIN_S, "did not go away")

    def _until(self, done: Callable[[], bool], timeout: float, otherwise: str) -> None:
        until = time.monotonic() + timeout
        while True:
            with contextlib.suppress(OSError):  # cgroups vanish while they are read
                if done():
                    return
            if time.monotonic() > until:
                raise TimeoutError(f"{self.spec.name} {otherwise} within {timeout:.0f} s")
            time.sleep(0.02)

    def _reported(self, namespace: str, key: str, value: str) -> None:
        """A guest attribute arrived: faults that wait for a phase happen when it reports that it runs."""
        if namespace != "flexserve" or not key.startswith("phase-"):
            return
        with contextlib.suppress(ValueError, AttributeError):
            if json.loads(value).get("result") == "running":
                self._faults_in(key.removeprefix("phase-"))

    def _follow(self, launcher: subprocess.Popen[bytes]) -> None:
        """Faults that wait for a phase happen when the console says that it starts."""
        console, seen = self.folder / "out" / "console.log", 0
        while launcher.poll() is None:
            with contextlib.suppress(OSError), console.open("rb") as file:
                seen = max(seen, 0) if seen <= file.seek(0, os.SEEK_END) else 0
                file.seek(seen)
                while (line := file.readline()).endswith(b"\n"):
                    seen = file.tell()
                    if found := PHASE_STARTS.search(line):
                        self._faults_in(found[1].decode())
            time.sleep(0.1)

    def _faults_in(self, phase: str) -> None:
        faults = self.behaviour.faults
        actions: dict[str, Callable[[], object]] = {
            "power_cut_in": self._cut_and_start,
            "docker_dies_in": lambda: self.exec(["sh", "-c", STOP_DOCKER], timeout=60),
            "disk_full_in": lambda: self.exec(["sh", "-c", FILL_DISK], timeout=60),
        }
        for switch, action in actions.items():
            if getattr(faults, switch) == phase and switch not in self._happening:
                self._happening.add(switch)
                threading.Thread(target=self._happen, args=(switch, action), name=f"{switch} {phase}", daemon=True).start()

    def _happen(self, switch: str, action: Callable[[], object]) -> None:
        """The switch goes back when it has happened: until then the registry holds its layers, or the pull might be faster."""
        try:
            action()
        finally:
            setattr(self.behaviour.faults, switch, "")
            self._happening.discard(switch)

    def _cut_and_start(self) -> None:
        with self._lock:
            if not self._deleted:
                self.power_cut()
                self.start()

    def _environment(self) -> Mapping[str, str]:
        layers = self._layers
        over = [str(layer) for layer in (layers.conf, layers.software) if layer]
        package_root = str(HERE.parent.parent)
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "M_ID": self.ident, "M_NAME": self.spec.name, "M_DIR": str(self.folder), "M_ROOT": str(layers.root or ""),
            "M_CONF": ":".join(over), "M_DISK_GB": str(self.spec.disk_gb), "M_EGRESS": str(int(self.spec.egress)),
            "M_GOOGLE": str(int(self._google())), "M_ADDRESS": self.address, "M_MAC": _mac(self.spec),
            "M_MORE": MORE.get(self.spec.flavour, ""), "M_PYTHON": sys.executable,
            "PYTHONPATH": package_root, "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def _google(self) -> bool:
        return self.spec.egress or self.spec.private_google_access

    def _configure(self) -> None:
        document = {
            "flavour": self.spec.flavour, "bridge": str(self.folder / "bridge"), "folder": str(self.folder),
            "hostname": self.spec.name,
            "address": self.address, "egress": self.spec.egress, "google": self._google(),
            "root": str(self._layers.root or ""), "repo": str(self._layers.repo), "registry": str(self._layers.registry),
            "certificate": str(self._layers.certificates / "server.crt"), "key": str(self._layers.certificates / "server.key"),
        }  # fmt: skip
        (self.folder / "fakes.json").write_text(json.dumps(document))


STOP_DOCKER = "systemctl mask --runtime --now docker.socket docker.service; systemctl stop docker.socket docker.service"
FILL_DISK = "fallocate -l $(($(stat -f -c '%f * %S' /) - 1048576)) /var/filler; df -h /"
"""All free blocks, those kept for root too: docker is root, and 1 % of a 200 GB disk holds an image."""


REACHED = {"ec2": "127.0.0.1"}
MORE = {"container": container.CREDENTIALS_HOST}
NIC = {
    "gce": ("instance/network-interfaces/0/ip", "instance/network-interfaces/0/mac"),
    "ec2": ("meta-data/local-ipv4", "meta-data/mac"),
}
"""Where each flavour's metadata has the nic's internal address and its hardware address."""


def _address(spec: MachineSpec) -> str:
    """The internal address that the metadata gives, where it is one."""
    value = _told(spec, 0)
    try:
        return str(ipaddress.IPv4Address(str(value)))
    except ValueError:
        return ADDRESS


def _told(spec: MachineSpec, which: int) -> object:
    """What the metadata says of the nic; nothing where a machine has no metadata."""
    if spec.flavour not in NIC:
        return None
    return find(cast("Guest | Ec2Guest", spec.guest).metadata(), NIC[spec.flavour][which])


def _mac(spec: MachineSpec) -> str:
    """The nic's hardware address that the metadata gives, where it is one."""
    value = str(_told(spec, 1)).lower()
    return value if re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", value) else MAC


def _tail(file: Path, lines: int = 5) -> str:
    text = file.read_text(errors="replace") if file.exists() else ""
    return " / ".join(re.sub(r"\s+", " ", line) for line in text.strip().splitlines()[-lines:])
