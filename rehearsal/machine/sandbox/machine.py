"""`rehearsal.contracts.Machine` as a sandbox. It proves the script's logic, not that it works on a real system."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rehearsal.contracts import MachineSpec
from rehearsal.machine import kernel
from rehearsal.machine.booted import BootedMachine, Layers
from rehearsal.machine.faults import Behaviour
from rehearsal.machine.images import OPTIONS
from rehearsal.machine.sandbox.commands import NAMES

HERE = Path(__file__).parent
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


class SandboxMachine(BootedMachine):
    """Power, reboot, exec, connect and inventory are the booted machine's; there is no systemd, dockerd or disk of its own."""

    kind = "sandbox"
    launcher = HERE / "launch.sh"

    def __init__(self, spec: MachineSpec, folder: Path, layers: Layers, behaviour: Behaviour) -> None:
        super().__init__(spec, folder, layers, behaviour)
        self.commands = folder / "bin"
        self.commands.mkdir()
        for name in NAMES:
            file = self.commands / name
            file.write_text(_wrapper(name, layers.registry / "images.json"))
            file.chmod(0o755)

    def connect(self, port: int, timeout: float = 5.0) -> int:
        """A connected socket's descriptor, made by a helper process in the sandbox's network."""
        inner = kernel.launched(self._launcher.pid)[0] if self._launcher and self.running() else None
        if inner is None:
            raise ConnectionRefusedError(f"{self.spec.name} is off")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            words = [str(inner), self.address, str(port), str(timeout), str(theirs.fileno())]
            argv = [sys.executable, "-ISE", str(HERE / "dial.py"), *words]
            done = subprocess.run(argv, pass_fds=[theirs.fileno()], capture_output=True, timeout=timeout + 10, check=False)
            if done.returncode:
                raise ConnectionRefusedError(done.returncode, os.strerror(done.returncode))
            return int(socket.recv_fds(ours, 1, 1)[1][0])

    def _environment(self) -> Mapping[str, str]:
        seen = [sys.base_prefix, sys.prefix, str(HERE.parents[2]), str(self.folder.parent.parent)]
        seen.append(str(Path(sys.prefix).resolve()))  # the environment may be a link
        seen += [path for path in sys.path if path.endswith("site-packages")]
        return {**super()._environment(), "M_SEEN": "\n".join(path for path in dict.fromkeys(seen) if not _shown(path))}

    def _init_of(self, launcher: int) -> int | None:
        return kernel.launched(launcher)[0]

    def _exec_environment(self) -> Mapping[str, str]:
        return {**super()._exec_environment(), "M_PATH": str(self.commands)}

    def _faults_in(self, phase: str) -> None:
        if self.behaviour.faults.disk_full_in == phase:
            raise NotImplementedError("a sandbox has no disk of its own to fill")
        super()._faults_in(phase)


def _shown(path: str) -> bool:
    """Whether a folder is seen in a sandbox anyway."""
    return path == "/usr" or path.startswith(("/usr/", "/lib"))


def lacking() -> list[str]:
    """What is missing even for a sandbox, a sentence each."""
    if sys.platform != "linux":
        return [f"a sandbox needs Linux's namespaces, this is {sys.platform}"]
    found = [f"{name} is not installed" for name in ("unshare", "setpriv", "ip", "curl", "bash") if not shutil.which(name)]
    if not found:
        probe = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "true"]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            found.append("this user may not make namespaces (kernel.unprivileged_userns_clone, AppArmor)")
    return found


def write_conf(folder: Path, authority: bytes) -> None:
    """The few files of /etc that a sandbox has of its own."""
    etc = folder / "etc"
    (etc / "ssl/certs").mkdir(parents=True, exist_ok=True)
    (etc / "hosts").write_text("127.0.0.1 localhost\n169.254.169.254 metadata.google.internal metadata\n")
    (etc / "resolv.conf").write_text("nameserver 169.254.169.254\noptions timeout:2 attempts:1\n")
    known = CERTIFICATES.read_bytes() if CERTIFICATES.exists() else b""
    (etc / "ssl/certs/ca-certificates.crt").write_bytes(known + authority)


def _wrapper(name: str, images: Path) -> str:
    root = HERE.parent.parent.parent
    variables = {"PYTHONPATH": root, "SANDBOX_IMAGES": images, "STAND_IN_OPTIONS": OPTIONS, "PYTHONDONTWRITEBYTECODE": "1"}
    settings = " ".join(f"{key}='{value}'" for key, value in variables.items())
    return f"#!/bin/sh\n{settings} exec '{sys.executable}' -S -m rehearsal.machine.sandbox.commands {name} \"$@\"\n"
