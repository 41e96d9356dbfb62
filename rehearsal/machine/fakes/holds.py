"""Time that stand-ins hold on purpose, so that a boot takes the shape of a real one; kept apart from the script's own time."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from rehearsal.machine.fakes.bridge import Bridge


class Holds:
    """Holds the first transfer of each kind once a power-on and appends `{what, start, seconds}` to a file, a line each."""

    def __init__(self, bridge: Bridge, record: Path) -> None:
        self._bridge = bridge
        self._record = record
        self._lock = threading.Lock()
        self._done: set[str] = set()

    def hold(self, what: str) -> float:
        """Wait for as long as `what` is to be held; the seconds. `start` in the record is epoch seconds."""
        with self._lock:
            seconds = float(self._bridge.behaviour()["holds"].get(what, 0)) if what not in self._done else 0.0
            self._done.add(what)
        if seconds <= 0:
            return 0.0
        start = time.time()
        time.sleep(seconds)
        held = round(time.time() - start, 3)
        with self._lock, self._record.open("a") as file:
            file.write(json.dumps({"what": what, "start": round(start, 3), "seconds": held}) + "\n")
        return held
