"""Hunts for a secret's value: in files, in what they pack, and in the arguments and environment of processes.

Used by the tests with a sentinel token, always beside a positive control: a second token that was planted in each place.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import tarfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

CHUNK = 8 << 20
BLOCK = 64 << 10
MAX_PACKED = 256 << 20  # unpacked bytes looked at per packed stream
EVERYTHING_S = 1.0
GZIP_MAGIC = b"\x1f\x8b\x08"


def spellings(token: str) -> tuple[bytes, ...]:
    """The token as it is, and its base64 forms at the three alignments, without the ends that depend on neighbours."""
    raw = token.encode()
    packed = []
    for pad in range(3):
        coded = base64.b64encode(b"\0" * pad + raw)
        start = (pad * 8 + 5) // 6
        end = len(coded) - 4 if (pad + len(raw)) % 3 else len(coded)
        packed.append(coded[start:end])
    return (raw, *packed)


def in_bytes(data: bytes, token: str, depth: int = 2) -> bool:
    """Whether the token is in there: plain, base64, or inside gzip (also base64 of gzip), `depth` levels down."""
    if any(s in data for s in spellings(token)):
        return True
    if depth == 0:
        return False
    return any(in_bytes(inner, token, depth - 1) for inner in _unpacked(data))


def in_files(folder: Path, token: str) -> list[str]:
    """Paths below `folder` (or the file itself) that hold the token. Sparse files are read where they have data."""
    files = [folder] if folder.is_file() else [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    return sorted(str(p) for p in files if _in_file(p, token))


def _in_file(path: Path, token: str) -> bool:
    overlap = b""
    try:
        for block in _data(path):
            if in_bytes(overlap + block, token):
                return True
            overlap = block[-4096:]
    except OSError:
        return False  # a file of a machine that is being written may vanish
    return False


def _data(path: Path) -> Iterator[bytes]:
    """Blocks of the file's data; the holes of a sparse file are skipped."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= CHUNK:
            yield file.read()
            return
        at = 0
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            except OSError:
                return
            while at < hole:
                block = os.pread(file.fileno(), min(CHUNK, hole - at), at)
                if not block:
                    return
                yield block
                at += len(block)


def _unpacked(data: bytes) -> Iterator[bytes]:
    at = data.find(GZIP_MAGIC)
    while at >= 0:
        decoder = zlib.decompressobj(wbits=31)
        with contextlib.suppress(zlib.error):
            yield decoder.decompress(data[at:], MAX_PACKED)
        at = data.find(GZIP_MAGIC, at + 1)
    for pad in (b"H4sI",):  # base64 of a gzip header
        at = data.find(pad)
        while at >= 0:
            end = at
            while end < len(data) and (data[end : end + 1].isalnum() or data[end : end + 1] in b"+/=\n"):
                end += 1
            with contextlib.suppress(OSError, EOFError, ValueError, zlib.error):
                yield gzip.decompress(base64.b64decode(data[at:end].replace(b"\n", b"")))
            at = data.find(pad, at + 1)


def in_image_layers(storage: Path, *tokens: str) -> dict[str, list[str]]:
    """By token, the files of the image layers in a registry's storage that hold it. Each layer is unpacked once."""
    found: dict[str, list[str]] = {token: [] for token in tokens}
    for blob in storage.rglob("data"):
        packed = blob.read_bytes()
        if not packed.startswith(GZIP_MAGIC):
            continue
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as layer:
            for member in layer:
                file = layer.extractfile(member) if member.isfile() else None
                data = file.read() if file is not None else b""
                for token in tokens:
                    if in_bytes(data, token):
                        found[token].append(f"{blob.parent.name[:12]}:{member.name}")
    return found


class ProcessWatch:
    """Samples the arguments and environments of all processes on this host while the block lasts.

    Our own process and its threads are left out: the rehearsal itself holds the operator's token on purpose.
    """

    def __init__(self, *tokens: str, every_s: float = 0.05) -> None:
        self.seen: dict[str, set[str]] = {token: set() for token in tokens}
        self._wanted = [(token.encode(), found) for token, found in self.seen.items()]
        self._every_s = every_s
        self._looks = 0
        self._known: dict[str, bytes] = {}  # by process: the arguments with which its environment was read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.look()
            time.sleep(self._every_s)

    def look(self) -> None:
        """One sample. There are twenty a second, of all processes: read by system calls, at a third of what a `Path` costs.

        An environment comes with an exec, and so do arguments: where these are as before it is read once a second.
        """
        own = str(os.getpid())
        self._looks += 1
        if self._looks * self._every_s >= EVERYTHING_S:
            self._looks = 0
            self._known.clear()
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or entry.name == own:
                continue
            arguments = _read(f"{entry.path}/cmdline")
            if arguments and self._known.get(entry.name) == arguments:
                continue
            environment = _read(f"{entry.path}/environ")
            if environment:  # one that is in the middle of an exec has none yet
                self._known[entry.name] = arguments
            for part, data in (("cmdline", arguments), ("environ", environment)):
                for spelt, found in self._wanted:
                    if spelt in data:
                        found.add(f"{part} of {_command(Path(entry.path))}")


def _read(path: str) -> bytes:
    """What a file of /proc holds; nothing of a process that has gone, or is not ours to see."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        data = block = os.read(file, BLOCK)
        while len(block) == BLOCK:
            block = os.read(file, BLOCK)
            data += block
        return data
    except OSError:
        return b""
    finally:
        os.close(file)


def _command(process: Path) -> str:
    """The first words of a process's command; empty when it has gone meanwhile."""
    try:
        return " ".join((process / "cmdline").read_bytes().decode(errors="replace").split("\0")[:4])[:80]
    except OSError:
        return ""
