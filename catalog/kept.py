"""The catalog's tables as msgpack, kept between processes: reading the TOML is most of what loading the catalog costs.

A kept form is named by a hash of all the files that it was made from, and begins with a hash of itself: one of other files, or one
that was torn, is never used. Its rows are checked against their shapes all the same. Where nothing can be written, the TOML is read
each time; the rows are the same either way.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from verdict.places import cache_root

FORM = b"1"  # another one when the tables are kept in another way
_HASH_BYTES = 32


def folder() -> Path:
    """Where this user's are kept."""
    return cache_root() / "catalog"


def name(files: Mapping[str, bytes]) -> str:
    """The hash over names and contents."""
    digest = hashlib.sha256(FORM)
    for file in sorted(files):
        digest.update(b"%s\0%d\0" % (file.encode(), len(files[file])) + files[file])
    return digest.hexdigest()


def read(place: Path) -> bytes | None:
    """What was kept there, whole and by this user; else None."""
    try:
        if place.stat().st_uid != os.getuid():
            return None
        content = place.read_bytes()
    except OSError:
        return None
    head, kept = content[:_HASH_BYTES], content[_HASH_BYTES:]
    return kept if hashlib.sha256(kept).digest() == head else None


def write(place: Path, kept: bytes) -> None:
    """Keep it whole, or not at all; what was kept of other contents goes."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.{os.getpid()}")
        part.write_bytes(hashlib.sha256(kept).digest() + kept)
        part.replace(place)
        for other in place.parent.iterdir():
            if other != place and "." not in other.name:
                other.unlink()
