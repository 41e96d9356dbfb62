"""The record of a boot: what the machine writes while it starts, and what everybody else reads.

The boot script writes one JSON document a phase and one for the whole, to `STATUS_DIR` on the machine and, where the cloud
has such a channel, outside it (Compute Engine guest attributes, namespace `flexserve`, keys `state` and `phase-NAME`).
Phase names are an open set; times are seconds since the start of that run of the script. A run is known by its `run`: phase
documents of an earlier one are still there while this one has not reached the phase, and are not part of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

STATUS_DIR = "/var/lib/flexserve"
NAMESPACE = "flexserve"
STATE_KEY = "state"
PHASE_PREFIX = "phase-"


@dataclass(frozen=True)
class Phase:
    """One phase. `held_s` is time that stand-ins held on purpose (rehearsal only, 0 on a real machine)."""

    name: str
    start_s: float
    seconds: float | None
    result: str  # running, done, skipped, failed
    needs: tuple[str, ...] = ()
    held_s: float = 0.0
    cause: str = ""
    log_tail: str = ""


@dataclass(frozen=True)
class BootStatus:
    """The boot as last reported. `script` is the running script's hash.

    `state`: booting, failed, reclaimed, and at its end serving, or done where it is a builder's.
    """

    state: str
    script: str
    phase: str
    cause: str
    started_at: int  # epoch seconds
    updated_at: int
    boot_id: str
    phases: tuple[Phase, ...] = ()


def parse(values: Mapping[str, str]) -> BootStatus | None:
    """Read the documents by key (`state`, `phase-docker`, …). None before the first report; a broken document is skipped."""
    raw = _document(values.get(STATE_KEY, ""))
    if raw is None:
        return None
    phases = []
    for key, text in values.items():
        record = _document(text) if key.startswith(PHASE_PREFIX) else None
        if record is not None and record.get("run") == raw.get("run"):
            phases.append(
                Phase(
                    name=str(record.get("name", key.removeprefix(PHASE_PREFIX))),
                    start_s=_number(record.get("start_s")) or 0.0,
                    seconds=_number(record.get("seconds")),
                    result=str(record.get("result", "running")),
                    needs=tuple(str(n) for n in _list(record.get("needs"))),
                    held_s=_number(record.get("held_s")) or 0.0,
                    cause=str(record.get("cause", "")),
                    log_tail=str(record.get("log_tail", "")),
                )
            )
    return BootStatus(
        state=str(raw.get("state", "booting")),
        script=str(raw.get("script", "")),
        phase=str(raw.get("phase", "")),
        cause=str(raw.get("cause", "")),
        started_at=int(_number(raw.get("started_at")) or 0),
        updated_at=int(_number(raw.get("updated_at")) or 0),
        boot_id=str(raw.get("boot_id", "")),
        phases=tuple(sorted(phases, key=lambda p: (p.start_s, p.name))),
    )


def _document(text: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
