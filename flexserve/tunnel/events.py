"""What a tunnel tells while it runs: one event, one JSON line. `KINDS` is the table that the docs are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from verdict.errors import FlexserveError, Gone, Reclaimed


@dataclass(frozen=True)
class Event:
    """`kind`: one of `KINDS`. `fields`: JSON values."""

    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def as_dict(self) -> dict[str, object]:
        """The JSON line's object."""
        return {"event": self.kind, "at": self.at.isoformat(timespec="milliseconds"), **self.fields}


@dataclass(frozen=True)
class Kind:
    """What an event says, the fields that it always has, those that it has where they are known, and who tells it."""

    about: str
    fields: tuple[str, ...]
    more: tuple[str, ...] = ()
    by: str = "all"


_COUNTED = ("bytes_up", "bytes_down", "seconds", "resumes")
_ERROR = ("kind", "what", "why", "way_out", "exit_code")
_BROKEN = ("code", "detail")

KINDS: dict[str, Kind] = {
    "listening": Kind("a session through the relay was confirmed; clients may come", ("port", "base_url")),
    "waiting": Kind("it cannot be reached yet, and is tried again", ("cause", "seconds"), ("phase",), "Compute Engine"),
    "opened": Kind("a client came; they are numbered from 1", ("connection",), (), "Compute Engine"),
    "resumed": Kind(
        "a broken link is opened anew; no byte is lost (EC2: the session)",
        ("cause",),
        ("connection", *_BROKEN),
        "Compute Engine, EC2",
    ),
    "unreachable": Kind(
        "no client gets through, and why; told once, until one does (Compute Engine: the link is tried again)",
        ("cause", "why"),
        ("connection", "way_out", *_BROKEN),
        "Compute Engine, SageMaker",
    ),
    "reachable": Kind("after that: clients get through again", ("seconds",), (), "Compute Engine, SageMaker"),
    "unanswered": Kind(
        "the cloud cannot be asked whether the machine still exists; told once, until it answers. The tunnel stays",
        ("why",),
        ("way_out",),
    ),
    "answered": Kind("after that: the cloud answers again, and the machine still exists", ("seconds",)),
    "lingering": Kind(
        "over stdin and stdout: stdin has ended, nothing comes from the machine, and that is waited for a little longer",
        ("connection", "seconds"),
        (),
        "Compute Engine",
    ),
    "closed": Kind("a connection ended as it should", ("connection", *_COUNTED), ("why",), "Compute Engine"),
    "reset": Kind("a connection was reset, and why", ("connection", "cause", "why"), (*_COUNTED, *_BROKEN), "Compute Engine, EC2"),
    "stopped": Kind("the tunnel has ended; sums", ("connections", "bytes_up", "bytes_down"), ("resets",)),
    "expired": Kind("the window closed: the last line", _ERROR),
    "reclaimed": Kind("the cloud took the machine back: the last line", _ERROR),
    "failed": Kind("any other error, also before anything was dialled: the last line", _ERROR),
}
ENDS = ("expired", "reclaimed", "failed")
"""How it can end that is no stop and no command's end. On the command line this is the last line, once, after `stopped`."""


SPELLS = ("unreachable", "reachable", "unanswered", "answered")
ALONE = (*SPELLS, "lingering", "closed")
"""What an operator is told, where it has a sentence, also over stdin and stdout; there nothing else is before the end."""


def end_of(error: FlexserveError) -> Event:
    """The event of an error that ends a tunnel, or that let none begin."""
    kind = "reclaimed" if isinstance(error, Reclaimed) else "expired" if isinstance(error, Gone) else "failed"
    said = {"kind": error.kind, "what": error.what, "why": error.why, "way_out": error.way_out}
    return Event(kind, {**said, "exit_code": int(error.exit_code)})


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
