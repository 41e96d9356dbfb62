"""Whether this host can boot a machine, and if not, what it lacks."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

PROGRAMS = {
    "systemd-nspawn": "systemd-container", "unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs", "losetup": "mount", "bash": "bash",
}  # fmt: skip
SYS_ADMIN, NET_ADMIN = 21, 12


def missing() -> list[str]:
    """What is missing for a booted machine, a sentence each; empty when nothing is."""
    if sys.platform != "linux":
        return [f"systemd-nspawn needs Linux, this is {sys.platform}"]
    lacking = []
    if os.geteuid() != 0:
        lacking.append("not root")
    else:
        status = Path("/proc/self/status").read_text()
        effective = int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)
        if not (effective >> SYS_ADMIN & 1 and effective >> NET_ADMIN & 1):
            lacking.append("root here may not mount or make networks (CAP_SYS_ADMIN, CAP_NET_ADMIN)")
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacking += [
        f"{name} is not installed (package {package})" for name, package in PROGRAMS.items() if not shutil.which(name, path=path)
    ]
    if not Path("/dev/loop-control").exists():
        lacking.append("no loop devices (/dev/loop-control)")
    if "overlay" not in Path("/proc/filesystems").read_text():
        lacking.append("the kernel has no overlay file system")
    return lacking
