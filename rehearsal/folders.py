"""The folders of rehearsals: one each while it runs, kept after a failure, swept when the rehearsal was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from rehearsal.machine.sweep import sweep
from verdict.errors import FlexserveError
from verdict.places import below_home

KEPT = 10  # folders of ended rehearsals; older ones go
LOCK = "lock"


def state_folder() -> Path:
    """`$FLEXSERVE_STATE`, else `$XDG_STATE_HOME`, else `~/.local/state`; in it `flexserve/rehearsals`."""
    base = os.environ.get("FLEXSERVE_STATE") or os.environ.get("XDG_STATE_HOME") or below_home(os.environ, ".local", "state")
    return Path(base) / "flexserve" / "rehearsals"


def new_folder(name: str) -> tuple[Path, IO[bytes]]:
    """A folder for one rehearsal, and its lock: held until closed, and let go by the kernel when the process dies.

    What killed rehearsals left on this host is taken away first; their logs and state are kept.
    """
    state = state_folder()
    try:
        state.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=state))
    except OSError as error:
        raise FlexserveError(
            "a rehearsal has no place for its files",
            why=f"{state}: {error.strerror}",
            way_out="name one: FLEXSERVE_STATE=/some/folder",
        ) from error
    lock = (folder / LOCK).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    sweep_dead(state)
    return folder, lock


def sweep_dead(state: Path) -> None:
    """End and remove the machines of rehearsals that are no more, and all but the newest of their folders."""
    ended = [folder for folder in state.iterdir() if folder.is_dir() and _ended(folder)]
    for folder in ended:
        machines = folder / "stage" / "machines" / "machines"
        if machines.is_dir():
            sweep(machines)
    for folder in sorted(ended, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _ended(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return (folder / "commands.log").exists()  # made before there was a lock
    except OSError:
        return False
    return True
