"""Runs the product's own commands as an operator would: real processes, their output kept, ended with the rehearsal."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` printed; empty when it printed none."""
        try:
            value = json.loads(self.stdout)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class Product:
    """The commands of one rehearsal: same folder, same environment, one log."""

    def __init__(self, project: Path, environment: Mapping[str, str], log: Path, say: Callable[[str], None]) -> None:
        self.project = project
        self.environment = dict(environment)
        self.log = log
        self.say = say

    def flexserve(self, *words: str, timeout: float = 600, stdin: str | None = None) -> Ran:
        """`flexserve WORDS`, by this interpreter."""
        return self.run([sys.executable, "-m", "flexserve", *words], timeout=timeout, stdin=stdin, show=["flexserve", *words])

    def pulumi(self, *words: str, timeout: float = 600) -> Ran:
        """`pulumi WORDS --non-interactive`."""
        return self.run(["pulumi", *words, "--non-interactive"], timeout=timeout)

    def run(self, argv: Sequence[str], *, timeout: float, stdin: str | None = None, show: Sequence[str] | None = None) -> Ran:
        """Run to its end, or interrupt it after `timeout` seconds. Its stderr is shown as it comes; all of it is logged."""
        self.say(f"$ {' '.join(show or argv)}")
        started = time.monotonic()
        process = subprocess.Popen(
            _dying_with_us(argv),
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out: list[str] = []
        err: list[str] = []
        readers = [
            threading.Thread(target=_drain, args=(process.stdout, out, None), daemon=True),
            threading.Thread(target=_drain, args=(process.stderr, err, self.say), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            if stdin is not None and process.stdin:
                process.stdin.write(stdin)
                process.stdin.close()
            process.wait(timeout)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            _end(process)
            if sys.exc_info()[0] is KeyboardInterrupt:
                raise
            err.append(f"ended after {timeout:.0f} s by the rehearsal\n")
        for reader in readers:
            reader.join(5)
        ran = Ran(tuple(show or argv), process.returncode, "".join(out), "".join(err), time.monotonic() - started)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(ran.argv)}\n{ran.stderr}{ran.stdout}[exit {ran.returncode}, {ran.seconds:.1f} s]\n")
        return ran


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt, then terminate, then kill: each gets a while."""
    for number, patience in ((signal.SIGINT, 60), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        process.send_signal(number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        return


def _drain(stream: IO[str] | None, into: list[str], say: Callable[[str], None] | None) -> None:
    for line in stream or ():
        into.append(line)
        if say:
            say(line.rstrip("\n"))


def _dying_with_us(argv: Sequence[str]) -> list[str]:
    """A rehearsal that is killed takes its commands along. By a wrapper, not between fork and exec: gRPC runs in this process,
    and its fork handlers abort the child now and then.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv] if shutil.which("setpriv") else list(argv)
