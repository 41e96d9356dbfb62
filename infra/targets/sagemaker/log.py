"""The containers' log, read whole: a piece at a time, all streams in the order of time, whatever its length.

CloudWatch gives a stream by pages of at most 10,000 lines and 1 MB, each with the token of the next; the token that was sent comes
back at a stream's end. An empty page is no end. Source: CloudWatch Logs API, GetLogEvents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.clouds.aws.session import NotThere

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

PAGE = 10_000
PIECE = 1 << 20  # characters, about
FULL = 256 << 10  # characters: a page that holds so many may not be the only one
FULL_LINES = PAGE // 4


@dataclass(frozen=True)
class Line:
    """One line of the log, at so many seconds of epoch time."""

    at: float
    text: str
    stream: str


def streams_of(session: Session, group: str) -> list[dict[str, Any]]:
    """The log streams, one a machine; none where there is no group."""
    try:
        return list(session.pages("logs", "describe_log_streams", "logStreams", logGroupName=group))
    except NotThere:
        return []


def ends(session: Session, group: str, stream: str) -> list[Line]:
    """A stream's first page, and of a longer one its last page too: what a boot is told by is at its ends."""
    head, _ = _page(session, group, stream, startFromHead=True)
    if len(head) < FULL_LINES and sum(len(line.text) for line in head) < FULL:
        return head
    tail, _ = _page(session, group, stream, startFromHead=False, startTime=round(head[-1].at * 1000) + 1)
    return head + tail


def _page(session: Session, group: str, stream: str, **how: Any) -> tuple[list[Line], str]:
    """One page, and the token of the next; none of a stream that is gone."""
    try:
        answer = session.call("logs", "get_log_events", logGroupName=group, logStreamName=stream, limit=PAGE, **how)
    except NotThere:
        return [], ""
    events = answer.get("events") or []
    lines = [Line(event["timestamp"] / 1000, str(event.get("message", "")).rstrip("\n"), stream) for event in events]
    return lines, str(answer.get("nextForwardToken") or "")


@dataclass
class _Stream:
    """How far one stream was read. `waiting`: read and not yet told."""

    name: str
    token: str = ""
    waiting: list[Line] = field(default_factory=list)
    ended: bool = False

    def fill(self, session: Session, group: str) -> None:
        """Read on until there is a line or the end."""
        while not self.waiting and not self.ended:
            how: dict[str, Any] = {"nextToken": self.token} if self.token else {}
            self.waiting, token = _page(session, group, self.name, startFromHead=True, **how)
            self.ended = token in ("", self.token)
            self.token = token or self.token


class Reader:
    """Reads a group from its beginning on. Holds one page a stream and one piece. `told`: lines that were given out."""

    def __init__(self, session: Session, group: str) -> None:
        self._session, self._group = session, group
        self._streams: dict[str, _Stream] = {}
        self._rest: list[Line] = []  # of what was skipped to the middle of
        self.told = 0

    def piece(self) -> list[str]:
        """The next lines, `PIECE` or a little more; fewer at the end of what there is now."""
        self._look()
        texts: list[str] = []
        size = 0
        while size < PIECE and (lines := self._next()):
            texts += [line.text for line in lines]
            size += sum(len(line.text) for line in lines)
        self.told += len(texts)
        return texts

    def skip(self, lines: int) -> None:
        """Go on behind so many lines, or behind all that there are."""
        self._look()
        while self.told < lines and (read := self._next()):
            over = max(0, self.told + len(read) - lines)
            self._rest = read[len(read) - over :]
            self.told += len(read) - over

    def _look(self) -> None:
        """See which streams there are; each may have gone on."""
        for stream in streams_of(self._session, self._group):
            name = str(stream["logStreamName"])
            self._streams.setdefault(name, _Stream(name)).ended = False

    def _next(self) -> list[Line]:
        """The lines that no other stream can still have an earlier one for; none at the end of all."""
        if self._rest:
            rest, self._rest = self._rest, []
            return rest
        for stream in self._streams.values():
            stream.fill(self._session, self._group)
        until = min((s.waiting[-1].at for s in self._streams.values() if s.waiting and not s.ended), default=math.inf)
        return sorted(_taken(self._streams.values(), until), key=lambda line: line.at)


def _taken(streams: Iterable[_Stream], until: float) -> list[Line]:
    """Take the lines up to a time out of what waits."""
    taken: list[Line] = []
    for stream in streams:
        count = sum(line.at <= until for line in stream.waiting)
        taken += stream.waiting[:count]
        del stream.waiting[:count]
    return taken
