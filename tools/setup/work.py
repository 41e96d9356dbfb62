"""How a step runs commands: bounded, logged, stoppable."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.setup.step import StepFailed, Stopped

_POLL_S = 0.1
_GRACE_S = 5.0


@dataclass(frozen=True)
class Count:
    """Progress that can be read off a log: lines that match, of how many."""

    pattern: str
    total: int


@dataclass
class Work:
    """One step's log, time limit and progress; given to `Step.run`."""

    log: Path
    stop: threading.Event
    deadline: float  # time.monotonic()
    doing: str = ""
    fraction: float | None = None
    _count: Count | None = field(default=None, repr=False)

    def say(self, words: str) -> None:
        """What it is doing now: shown on a terminal, kept in the log."""
        self.doing, self.fraction = words, None
        with self.log.open("a", encoding="utf-8") as out:
            out.write(f"# {words}\n")

    def check(self) -> None:
        """Raises `Stopped` when the set-up is to end."""
        if self.stop.is_set():
            raise Stopped

    def command(
        self,
        argv: Sequence[object],
        *,
        environ: Mapping[str, str],
        cwd: Path | None = None,
        count: Count | None = None,
        limit_s: float | None = None,
        text_in: bytes | None = None,
    ) -> str:
        """Run to its end, output to the log; the output. Raises `StepFailed` when it fails or takes too long, `Stopped` on Ctrl-C.

        The command gets a session of its own and its whole process group is ended, so nothing of it outlives this call.
        """
        self.check()
        words = [str(a) for a in argv]
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            out.write(f"$ {' '.join(words)}\n".encode())
            out.flush()
            try:
                process = subprocess.Popen(
                    words,
                    cwd=cwd,
                    env=dict(environ),
                    stdin=subprocess.PIPE if text_in is not None else subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise StepFailed(f"{words[0]} could not be started: {error.strerror}") from error
            try:
                if text_in is not None and process.stdin is not None:
                    with contextlib.suppress(BrokenPipeError):
                        process.stdin.write(text_in)
                        process.stdin.close()
                end = min(self.deadline, time.monotonic() + limit_s) if limit_s else self.deadline
                self._wait(process, words, end, count, offset)
            finally:
                end_group(process)
        if process.returncode:
            raise StepFailed(f"`{_short(words)}` ended with {process.returncode}", exit_code=process.returncode)
        return self.log.read_bytes()[offset:].decode(errors="replace").partition("\n")[2]

    def _wait(self, process: subprocess.Popen[bytes], words: list[str], end: float, count: Count | None, offset: int) -> None:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
                return
            self.check()
            if time.monotonic() > end:
                raise StepFailed(f"`{_short(words)}` took too long", way_out="run it again; what was downloaded is kept")
            if count:
                text = self.log.read_bytes()[offset:].decode(errors="replace")
                self.fraction = min(0.99, len(re.findall(count.pattern, text, re.MULTILINE)) / count.total)

    def tail(self, lines: int = 15) -> list[str]:
        """The log's last lines."""
        if not self.log.exists():
            return []
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a command's process group: TERM, then KILL after some seconds. Nothing left is success."""
    for number, grace in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    process.wait()


def _short(words: Sequence[str], limit: int = 100) -> str:
    text = " ".join([Path(words[0]).name, *words[1:]])
    return text if len(text) <= limit else text[: limit - 1] + "…"
