"""What the operator sees: a line a step; on a terminal also one live line with bars."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import TextIO

from tools.setup.disk import size
from tools.setup.step import Outcome, Result, Step
from tools.setup.work import Work

_CLEAR = "\r\x1b[2K"
_BAR = 12


class Lines:
    """Prints to `out`. A lock keeps lines whole, since steps end in threads of their own."""

    def __init__(self, out: TextIO, *, terminal: bool) -> None:
        self._out = out
        self._terminal = terminal
        self._lock = threading.Lock()
        self._running: dict[str, tuple[float, Work]] = {}

    def started(self, step: Step, work: Work) -> None:
        """Say what it is for and what it takes, since minutes may pass; remember it for the live line."""
        with self._lock:
            self._running[step.name] = (time.monotonic(), work)
        takes = f", takes about {size(step.takes_mb)}" if step.takes_mb else ""
        self._line(f"  {step.name:<16} ...               {step.about}{takes}")

    def ended(self, step: Step, outcome: Outcome) -> None:
        """One line: name, result, seconds, what is there and where it is kept."""
        with self._lock:
            self._running.pop(step.name, None)
        if outcome.result is not Result.FAILED:
            kept = f"  ({outcome.where})" if outcome.where and str(outcome.where) not in outcome.words else ""
            self._line(f"  {step.name:<16} {outcome.result:<8} {outcome.seconds:6.1f} s  {outcome.words}{kept}")

    def failed(self, outcome: Outcome, tail: Sequence[str]) -> None:
        """The sentence, the way out, where the log is, and its last lines."""
        code = f", exit {outcome.exit_code}" if outcome.exit_code is not None else ""
        text = [f"  {outcome.name:<16} {outcome.result:<8} {outcome.seconds:6.1f} s  {outcome.words}{code}"]
        if outcome.way_out:
            text.append(f"    way out: {outcome.way_out}")
        if outcome.log:
            text += [f"    log: {outcome.log}, its last lines:", *(f"    | {line}" for line in tail)]
        self._line("\n".join(text))

    def tick(self) -> None:
        """Draw the live line."""
        if not self._terminal:
            return
        with self._lock:
            parts = [live(name, time.monotonic() - began, work) for name, (began, work) in self._running.items()]
            self._out.write(_CLEAR + "  ".join(parts)[: columns(self._out) - 1])
            self._out.flush()

    def note(self, words: str) -> None:
        """A line of its own."""
        self._line(words)

    def _line(self, text: str) -> None:
        with self._lock:
            self._out.write((_CLEAR if self._terminal else "") + text + "\n")
            self._out.flush()


def columns(out: TextIO) -> int:
    """How wide the terminal of `out` is; 80 where it does not say (a serial console, a new pseudo-terminal: 0)."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def live(name: str, seconds: float, work: Work) -> str:
    """One step of the live line: what it does, and a bar where the log tells how far it is."""
    if work.fraction is not None:
        full = round(work.fraction * _BAR)
        return f"{name} {work.doing} [{'#' * full}{'.' * (_BAR - full)}] {seconds:.0f} s".replace("  ", " ")
    return f"{name} {work.doing} {seconds:.0f} s".replace("  ", " ")
