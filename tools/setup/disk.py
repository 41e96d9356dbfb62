"""Room on the file systems: what the steps of one set-up may take together, and how large a folder is."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from tools.setup.step import StepFailed

_MB = 1_000_000


def free_mb(place: Path) -> int:
    """What this user may still write there; 10^6 bytes."""
    return shutil.disk_usage(place).free // _MB


class Disks:
    """What was free when a file system was first asked for, and what the steps that run have claimed of it since."""

    def __init__(self, free: Callable[[Path], int] = free_mb) -> None:
        self._free = free
        self._left: dict[int, int] = {}
        self._lock = threading.Lock()

    def claim(self, step: str, room: Path, takes_mb: int) -> None:
        """Set `takes_mb` aside on the file system of `room`, which need not exist. Raises `StepFailed` when it has less."""
        place = next(p for p in (room.absolute(), *room.absolute().parents) if p.exists())
        device = place.stat().st_dev
        with self._lock:
            if takes_mb and device not in self._left:
                self._left[device] = self._free(place)
            left = self._left.get(device, 0)
            if takes_mb > left:
                raise StepFailed(
                    f"{step} takes about {size(takes_mb)}, and the file system of {place} has {size(left)} left for it",
                    way_out="make room there, or name another place: FLEXSERVE_CACHE=/some/folder",
                )
            if takes_mb:
                self._left[device] = left - takes_mb


def folder_mb(folder: Path) -> int:
    """What the files below a folder take on the disk; each once, and what cannot be read counts nothing."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(Path(parent) / name)
            except OSError:
                continue
            if (key := (found.st_dev, found.st_ino)) not in seen:
                seen.add(key)
                total += found.st_blocks * 512
    return total // _MB


def size(megabytes: int) -> str:
    """For people: `4.5 GB`, `600 MB`."""
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes} MB"
