"""A tunnel's events as text for a person, or as JSON lines for a program; and the live line on a terminal."""

from __future__ import annotations

import contextlib
import json as encoder
from typing import TextIO

from flexserve.output import columns
from flexserve.tunnel.events import ALONE, ENDS, Event

_CLEAR = "\r\x1b[K"


class Reporter:
    """`results` gets what a script waits for (or all events, one JSON object a line); `progress` the rest."""

    def __init__(self, results: TextIO, progress: TextIO, *, json: bool) -> None:
        self._results, self._progress, self._json = results, progress, json
        self._shown = False
        self._last_wait: tuple[object, object] | None = None
        self.live_wanted = not json and progress.isatty()

    def event(self, event: Event) -> None:
        """Tell one event; flushed, since scripts wait for it. How the tunnel ended is left to the error that follows."""
        self.clear()
        if event.kind in ENDS:
            return
        if self._json:
            _write(self._results, encoder.dumps(event.as_dict()) + "\n")
            return
        line = self._sentence(event)
        if line:
            _write(self._results if event.kind == "listening" else self._progress, line + "\n")

    def live(self, line: str) -> None:
        """Replace the live line; no wider than the terminal, where it could not be taken away."""
        _write(self._progress, _CLEAR + line[: columns(self._progress) - 1])
        self._shown = True

    def clear(self) -> None:
        """Take the live line away."""
        if self._shown:
            _write(self._progress, _CLEAR)
            self._shown = False

    def _sentence(self, event: Event) -> str:
        fields = event.fields
        if event.kind == "listening":
            return f"Listening on {fields['base_url']} (Ctrl-C ends it)"
        if event.kind == "waiting":
            state = (fields.get("cause"), fields.get("phase"))
            if state == self._last_wait:
                return ""
            self._last_wait = state
            return f"waiting: {fields.get('cause')}" + (f", boot phase {fields['phase']}" if fields.get("phase") else "")
        if event.kind == "reset":
            said = f" ({fields['detail']})" if fields.get("detail") else ""
            return f"connection {fields['connection']} was reset: {fields['why']}{said}"
        if event.kind in ALONE:
            return self._spell(event)
        if event.kind == "resumed":
            return f"connection {fields['connection']} is resumed: {fields.get('detail') or fields['cause']}"
        return ""

    def _spell(self, event: Event) -> str:
        fields = event.fields
        if event.kind == "reachable":
            return f"the machine is reached again, after {fields['seconds']} s"
        if event.kind == "lingering":
            return f"stdin has ended; waits {fields['seconds']:g} s for more from the machine"
        if event.kind == "answered":
            return f"the cloud answers again, after {fields['seconds']} s: the machine still exists"
        if "why" not in fields:
            return ""
        if event.kind == "closed":
            return f"closed: {fields['why']}"
        why = f"{fields['why']} ({fields['detail']})" if fields.get("detail") else fields["why"]
        out = f"; {fields['way_out']}" if fields.get("way_out") else ""
        if event.kind == "unreachable":
            return f"no client gets through: {why}{out}"
        return f"the cloud cannot be asked whether the machine still exists, the tunnel stays: {why}{out}"


def _write(stream: TextIO, text: str) -> None:
    """Nobody may read it any more (`| head -1`, a closed terminal): the tunnel stays."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()
