"""Ways to break the rehearsal of a toy."""

from __future__ import annotations

from typing import Any

from rehearsal.contracts import Fault
from verdict.exit_codes import ExitCode


def _full(stage: Any) -> None:
    stage.cloud.full = True


FAULTS = (Fault("room-full", ("toy",), "no room has space", _full, ExitCode.NO_CAPACITY, "the room is full"),)
