"""Who holds a stack's lock, from Pulumi's own refusal, and whether that process is still there.

A backend of files (a folder, a bucket) keeps a lock as a JSON file with process number, host and time; the engine lists them.
A killed engine leaves its own behind. Source: Pulumi 3.274, `pkg/backend/diy/lock.go`. Pulumi Cloud lists none.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from verdict.errors import FlexserveError

_HELD = re.compile(r"^\s*(\S.*): created by (.*)@(\S*) \(pid ([0-9]{1,10})\) at (\S+)$", re.MULTILINE)


class Holder(NamedTuple):
    """One lock: its address, whose it is, and since when."""

    address: str
    user: str
    host: str
    pid: int
    since: str

    @property
    def gone(self) -> bool:
        """Whether its process was one of this host and is there no longer; another host's cannot be looked for."""
        return self.host == socket.gethostname() and not _lives(self.pid)

    @property
    def words(self) -> str:
        """Who it is."""
        return f"process {self.pid} of {self.user} on {self.host}, since {self.since}"

    def clear(self) -> bool:
        """Remove the lock of a process that is gone; whether it did. It has to lie in a folder and to say what the engine said."""
        try:
            parts = urlsplit(self.address)
            file = Path(unquote(parts.path))
            if (parts.scheme, parts.netloc) != ("file", "") or not self.gone:
                return False
            held = json.loads(file.read_text(encoding="utf-8"))
            if (held["pid"], held["hostname"]) != (self.pid, self.host):
                return False
            file.unlink()
            file.with_name(f"{file.name}.attrs").unlink(missing_ok=True)
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return False
        return True


class Locked(FlexserveError):
    """Somebody else works on the stack, or did until it was killed. `holders` is empty where the backend names none."""

    kind = "locked"

    def __init__(self, stack: str, text: str) -> None:
        self.holders = holders(text)
        cancel = f"pulumi cancel -s {stack}"
        what, why = f"another command works on {stack}", "; ".join(holder.words for holder in self.holders)
        way_out = f"wait for it; if it was killed: {cancel}"
        if self.holders and all(holder.gone for holder in self.holders):
            what = f"{stack} is locked by a pulumi that is gone"
            why = f"{why}: it was killed before it could unlock"
            way_out = f"{cancel}, then the same again; or flexserve down -s {stack}, which unlocks and deletes"
        super().__init__(what, why=why or _last(text), way_out=way_out)

    def unlocked(self, say: Callable[[str], None]) -> bool:
        """Remove the locks if every one is of a process of this host that is gone; whether the stack is free now."""
        if not self.holders or not all(holder.gone for holder in self.holders):
            return False
        freed = [holder.clear() for holder in self.holders]
        if all(freed):
            say(f"removes the lock of a pulumi that was killed: {'; '.join(holder.words for holder in self.holders)}")
        return all(freed)


def holders(text: str) -> Sequence[Holder]:
    """The locks that an engine's refusal lists."""
    return tuple(Holder(address, user, host, int(pid), since) for address, user, host, pid, since in _HELD.findall(text))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.strip() != "stdout:"]
    return lines[-1] if lines else ""
