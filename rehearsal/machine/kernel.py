"""What machines have on this host, read from the kernel: processes, mounts, loop devices, namespaces, cgroups.

A thing belongs to a work folder when the kernel ties it to one of the folder's machines (cgroup, namespace) or to a path
below the folder. Nothing here trusts what the rehearsal remembers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.contracts import HostInventory

NAMESPACES = ("pid", "net", "mnt", "ipc", "uts", "cgroup")
SETTLED = ("pid", "net", "mnt")  # a process in one of these of a machine is a machine's


@dataclass
class _Process:
    pid: int
    cgroups: tuple[str, ...] = ()
    namespaces: dict[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    environment: bytes = b""


def inventory(folder: Path, ident: str) -> HostInventory:
    """Everything tied to `ident` (a cgroup's name, or its beginning) or to a path below `folder`."""
    processes = list(_processes())
    ours = {name: _link(f"/proc/self/ns/{name}") for name in NAMESPACES}
    mine = [process for process in processes if _belongs(process, folder, ident)]
    foreign = {link for process in mine for name in SETTLED if (link := process.namespaces.get(name)) != ours[name] and link}
    mine = [p for p in processes if p in mine or any(p.namespaces.get(name) in foreign for name in SETTLED)]
    namespaces = {link for process in mine for name, link in process.namespaces.items() if link != ours[name]}
    return HostInventory(
        processes=sorted(process.pid for process in mine),
        mounts=sorted(set(_mounts(processes, folder))),
        loop_devices=sorted(loop_devices(folder)),
        namespaces=sorted(filter(None, namespaces)),
        cgroups=sorted(str(path) for path in cgroups(ident)),
    )


def loop_devices(folder: Path) -> Iterator[str]:
    """Loop devices whose file lies (or lay, before it was removed) below `folder`."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if _below(backing.read_text().strip().removesuffix(" (deleted)"), folder):
                yield f"/dev/{backing.parent.parent.name}"


def cgroup_bases() -> Iterator[Path]:
    """The `rehearsal` cgroup below our own, in each hierarchy, where it exists."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        name = controllers.removeprefix("name=") or "unified"
        for top in (Path("/sys/fs/cgroup") / name, Path("/sys/fs/cgroup")):
            base = top / path.strip("/") / "rehearsal"
            if base.is_dir():
                yield base
                break


def cgroups(ident: str) -> Iterator[Path]:
    """The cgroups of the machines whose name begins with `ident`."""
    for base in cgroup_bases():
        yield from (path for path in base.iterdir() if path.is_dir() and path.name.startswith(ident))


def launched(launcher: int) -> tuple[int | None, int | None]:
    """Of a running launcher: its first process inside the namespaces, and the machine's own init. None where not yet there."""
    inner = next(iter(_children(launcher)), None)
    if inner is None:
        return None, None
    for child in _children(inner):
        with contextlib.suppress(OSError, StopIteration):
            status = Path(f"/proc/{child}/status").read_text().splitlines()
            numbers = next(line for line in status if line.startswith("NSpid:")).split()[1:]
            outer = next(line for line in Path(f"/proc/{inner}/status").read_text().splitlines() if line.startswith("NSpid:"))
            if len(numbers) > len(outer.split()[1:]) and numbers[-1] == "1":
                return inner, child
    return inner, None


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _processes() -> Iterator[_Process]:
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        process = _Process(int(entry))
        with contextlib.suppress(OSError):
            process.namespaces = {name: link for name in NAMESPACES if (link := _link(f"/proc/{entry}/ns/{name}"))}
            lines = Path(f"/proc/{entry}/cgroup").read_text().splitlines()
            process.cgroups = tuple(line.split(":", 2)[2] for line in lines)
            process.paths = tuple(filter(None, (_link(f"/proc/{entry}/cwd"), _link(f"/proc/{entry}/root"))))
            process.environment = Path(f"/proc/{entry}/environ").read_bytes()
        if process.namespaces:  # a zombie or a thread of the kernel has none that can be read
            yield process


def _belongs(process: _Process, folder: Path, ident: str) -> bool:
    return (
        any(f"/rehearsal/{ident}" in path for path in process.cgroups)
        or f"\0M_DIR={folder}".encode() in b"\0" + process.environment
        or any(_below(path, folder) for path in process.paths)
    )


def _mounts(processes: list[_Process], folder: Path) -> Iterator[str]:
    """Mount points below `folder`, or whose source is, in every mount namespace on this host."""
    seen: dict[str, int | str] = {_link("/proc/self/ns/mnt"): "self"}
    for process in processes:
        seen.setdefault(process.namespaces.get("mnt", ""), process.pid)
    for pid in seen.values():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
                fields = line.split()
                if _below(fields[4], folder) or f"={folder}/" in fields[-1] or _below(fields[3], folder):
                    yield fields[4]


def _below(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}/")


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 (a thousand of these an inventory)
    except OSError:
        return ""
