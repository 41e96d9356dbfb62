"""The machine's package mirror: a flat apt repository over HTTP."""

from __future__ import annotations

from pathlib import Path

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.web import Reply, Request, Reset, ranged

HOST = "packages.rehearsal.internal"


class Packages:
    """Answers for the mirror's name. Faults of `packages`: down, missing (the index is there, the files are not)."""

    def __init__(self, bridge: Bridge, holds: Holds, folder: Path) -> None:
        self._bridge = bridge
        self._holds = holds
        self._folder = folder

    def answer(self, request: Request) -> Reply:
        """One file of the repository."""
        fault = self._bridge.fault("packages")
        if fault == "down":
            raise Reset
        file = self._folder / Path(request.path).name
        if request.host != HOST or not file.is_file() or (fault == "missing" and file.suffix == ".deb"):
            return Reply(404, b"Not Found", {"Content-Type": "text/plain"})
        if file.suffix == ".deb":
            self._holds.hold("packages")
        return ranged(file.read_bytes(), request, {"Content-Type": "application/octet-stream"})
