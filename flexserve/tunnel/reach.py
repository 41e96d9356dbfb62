"""Whether clients get through, told when that changes: once when they do not, with the cause, and once when they do again."""

from __future__ import annotations

import time

from flexserve.tunnel.events import Event, OnEvent


class Reach:
    """One tunnel's. All calls come from its event loop."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._since: float | None = None

    def lost(self, cause: str, why: str, **more: object) -> None:
        """A client does not get through, for a reason that others will meet as well. Empty fields are left out."""
        if self._since is None:
            self._since = time.monotonic()
            self._tell("unreachable", cause=cause, why=why, **{name: value for name, value in more.items() if value})

    def found(self) -> None:
        """A client gets through."""
        if self._since is not None:
            seconds, self._since = time.monotonic() - self._since, None
            self._tell("reachable", seconds=round(seconds, 1))

    def _tell(self, kind: str, **fields: object) -> None:
        if self._on_event is not None:
            self._on_event(Event(kind, fields))
