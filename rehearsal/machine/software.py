"""Docker as a layer over the root, for machines that have it from the start: unpacked once from the machine's own packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from verdict.errors import FlexserveError
from verdict.places import cache_root

WANTED = ("docker.io", "containerd", "runc", "tini")


def docker(repo: Path) -> Path:
    """The layer's folder: in the cache, whole or absent. Raises `FlexserveError` for a repository that lacks a package."""
    folder = cache_root() / f"machine-docker-{repo.name.rpartition('-')[2]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = folder.parent / f".{folder.name}.{os.getpid()}.tmp"  # named so that the set-up sweeps what a killed run left
    try:
        scratch.mkdir(mode=0o755)
        for name in WANTED:
            package = next(repo.glob(f"{name}_*.deb"), None)
            if package is None:
                raise FlexserveError(f"the machine's packages lack {name}", way_out="python -m rehearsal.machine.build repo")
            subprocess.run(["dpkg-deb", "--extract", str(package), str(scratch)], check=True, capture_output=True)
        shutil.rmtree(scratch / "usr/share", ignore_errors=True)
        shutil.rmtree(scratch / "lib/systemd", ignore_errors=True)  # the machine has a unit of its own
        for name in ("bin", "sbin", "lib"):  # links in the root: a folder of that name would hide them
            if (scratch / name).is_dir():
                shutil.copytree(scratch / name, scratch / "usr" / name, dirs_exist_ok=True, symlinks=True)
                shutil.rmtree(scratch / name)
        with contextlib.suppress(OSError):  # another process was faster: its folder stays
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder
