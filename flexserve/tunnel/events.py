"""What a tunnel tells while it runs: one event, one JSON line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True)
class Event:
    """`kind`: listening, waiting, opened, resumed, closed, reset, failed, expired, stopped. `fields`: JSON values."""

    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def as_dict(self) -> dict[str, object]:
        """The JSON line's object."""
        return {"event": self.kind, "at": self.at.isoformat(timespec="milliseconds"), **self.fields}


OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Stats:
    """So far: connections ever and open now, bytes to and from the server, links resumed, connections reset."""

    connections: int = 0
    open: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    resumes: int = 0
    resets: int = 0
