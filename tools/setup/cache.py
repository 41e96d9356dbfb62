"""The cache: one folder an artefact, `NAME-KEY`, whole or absent."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.setup.step import StepFailed, Stopped

_TEMPORARY = re.compile(r"^\.(?P<name>.+)\.(?P<pid>\d+)\.tmp$")


def digest(*parts: str | bytes | Path) -> str:
    """12 hexadecimal digits over strings, bytes and the content of files; a missing file counts as such."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            part = part.read_bytes() if part.is_file() else b"\0missing"
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:12]


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder`, removed at the end whatever happens."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)
    temporary = folder.parent / f".{folder.name}.{os.getpid()}.tmp"
    remove(temporary)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        remove(temporary)


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` when the block ends well, and is removed when it does not.

    When another process was faster its folder stays and ours goes: both were built from the same key.
    """
    with scratch(folder) as temporary:
        yield temporary
        if not folder.exists():
            temporary.rename(folder)


def sweep(parent: Path) -> list[Path]:
    """Remove temporary folders whose process is gone (it was killed); return them."""
    gone = []
    for entry in parent.iterdir():
        match = _TEMPORARY.match(entry.name)
        if match and not _alive(int(match["pid"])):
            remove(entry)
            gone.append(entry)
    return gone


def mounted_below(folder: Path, table: Path = Path("/proc/self/mounts")) -> list[str]:
    """Mount points in a folder, deepest first."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    points = [line.split()[1].encode().decode("unicode_escape") for line in lines]
    return sorted((p for p in points if Path(p).is_relative_to(folder)), reverse=True)


def remove(folder: Path) -> None:
    """Delete a folder, also one with read-only parts (Go's module cache). Absent is success.

    Raises `StepFailed` when something is mounted in it: that would be deleted too.
    """
    if points := mounted_below(folder.absolute()):
        raise StepFailed(f"{folder} has mounts in it and is not deleted", way_out=f"umount {' '.join(points)}")

    def unlock(_function: object, path: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(0o700)
            Path(path).chmod(0o700)
            Path(path).unlink() if not Path(path).is_dir() else shutil.rmtree(path, ignore_errors=True)

    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder, onerror=unlock)


@contextlib.contextmanager
def locked(path: Path, stopping: Callable[[], bool], waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock on `path`: two set-ups do not build the same thing. Raises `Stopped` while waiting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopping():
                    raise Stopped from None
                if not told:
                    waiting()
                    told = True
                time.sleep(0.2)
        yield


def link(there: Path, file: Path) -> None:
    """Make `there` a link to `file`, in one step, whatever it was."""
    there.parent.mkdir(parents=True, exist_ok=True)
    temporary = there.with_name(f".{there.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(file)
    temporary.replace(there)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
