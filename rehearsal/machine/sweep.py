"""Takes away what machines of a killed run left on this host. A run sweeps first and last."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from rehearsal.machine import kernel

LOCK = Path("/run/flexserve-rehearsal.lock")
PROPAGATE = Path("/run/systemd/nspawn/propagate")


def sweep(folder: Path) -> None:
    """End processes, mounts, loop devices and empty cgroups of machines below `folder`, and remove their folders.

    Only for a folder whose run is over. Cgroups of other runs that are empty go too; busy ones are left alone.
    """
    machines = [path for path in folder.glob("*") if path.is_dir()]
    for machine in machines:
        for _ in range(50):
            left = kernel.inventory(machine, "no machine has this name")
            for pid in left.processes:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for mount in sorted(left.mounts, key=len, reverse=True):
                subprocess.run(["umount", "--lazy", mount], stderr=subprocess.DEVNULL, check=False)
            for device in kernel.loop_devices(machine):
                subprocess.run(["losetup", "--detach", device], stderr=subprocess.DEVNULL, check=False)
            if left.empty():
                break
            time.sleep(0.1)
        shutil.rmtree(machine, ignore_errors=True)
    cgroups("")


def cgroups(ident: str) -> None:
    """Remove the empty cgroups of machines whose name begins with `ident`, and the marks that nspawn leaves."""
    if not os.access(LOCK.parent, os.W_OK):
        return
    with locked():
        for base in list(kernel.cgroup_bases()):
            for path in base.glob(f"{ident}*/"):
                _remove(path)
            with contextlib.suppress(OSError):
                base.rmdir()
    if PROPAGATE.is_dir():
        for mark in PROPAGATE.glob(f"{ident}*"):
            with contextlib.suppress(OSError):
                mark.rmdir()


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Not while a launcher is between making its cgroup and being in it."""
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(top: Path) -> None:
    """Remove a tree of cgroups from its leaves up; the kernel refuses one that is busy."""
    for _ in range(10):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if not top.exists() or _busy(top):
            return
        time.sleep(0.05)


def _busy(top: Path) -> bool:
    """Whether a process is in it. One that vanishes while it is read (its machine's own systemd ends) is not busy."""
    with contextlib.suppress(OSError):
        return any(path.read_text().strip() for path in top.rglob("cgroup.procs"))
    return False
