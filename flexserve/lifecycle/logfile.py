"""The engine's full output in a file of its own. That it cannot be kept (a full disk, a read-only folder) stops nothing."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

KEPT = 20


class LogFile:
    """One run's log: `STACK-TIME-PID-NAME.log`. `path` is empty when there is none. A context manager, as a file is."""

    def __init__(self, folder: Callable[[], Path], stack: str, name: str, say: Callable[[str], None]) -> None:
        self._say = say
        self.path = ""
        self._file: BinaryIO | None = None
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        try:
            place = folder()
            remove_old(place, stack)
            path = place / f"{stack}-{stamp}-{os.getpid()}-{name}.log"
            self._file = path.open("wb", buffering=0)
            self.path = str(path)
        except OSError as error:
            self._say(f"no log of this is kept: {error.strerror}")

    def keep(self, line: str) -> None:
        """One line more, there when this returns."""
        if self._file is None:
            return
        try:
            self._file.write(f"{line}\n".encode(errors="replace"))
        except OSError as error:
            self._say(f"the log ends here: {error.strerror}")
            self._file = None

    def __enter__(self) -> LogFile:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()


def remove_old(folder: Path, stack: str) -> None:
    """All but the newest of this very stack: `gpu` and `gpu-ab` are two."""
    ours = re.compile(rf"{re.escape(stack)}-\d{{8}}T\d{{6}}Z-\d+-\w+\.log")
    old = sorted(path for path in folder.iterdir() if ours.fullmatch(path.name))
    for path in old[: max(0, len(old) - KEPT + 1)]:
        path.unlink(missing_ok=True)
