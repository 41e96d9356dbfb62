"""Compiled templates, kept between processes: compiling them is most of what a rendering costs.

Jinja checks each against the template's own text and its own version, so a stale one is never used. Where nothing can be
written, templates are compiled anew each time; the bytes that are rendered are the same either way.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from verdict.places import cache_root


class Compiled(BytecodeCache):
    """One file a template, below the flexserve cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read it, if it is there and ours. A torn or foreign file is as good as none, in whatever way it fails to unpickle."""
        try:
            path = self._folder / bucket.key
            if path.stat().st_uid == os.getuid():
                with path.open("rb") as file:
                    bucket.load_bytecode(file)
        except Exception:
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write it whole, or not at all."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = self._folder / f"{bucket.key}.{os.getpid()}"
            with part.open("wb") as file:
                bucket.write_bytecode(file)
            part.replace(self._folder / bucket.key)


def kept() -> Compiled:
    """The cache of this user."""
    return Compiled(cache_root() / "templates")
