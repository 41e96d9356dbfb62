"""Runs one line as an operator types it: a shell on a terminal of its own, questions answered, Ctrl-C where it belongs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

COLUMNS, ROWS = 200, 50
CTRL_C = b"\x03"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Typed:
    """A line that ended: its exit code, the lines that it left on the screen, and the environment of the shell afterwards."""

    code: int
    lines: tuple[str, ...]
    environment: Mapping[str, str]
    seconds: float


def screen(raw: bytes) -> list[str]:
    """What stays on the screen: of a line that was overwritten, the last version; no colours."""
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2] for line in text.split("\n")]
    return [_ESCAPE.sub("", line).rstrip() for line in lines]


def type_line(
    line: str,
    folder: Path,
    environment: Mapping[str, str],
    *,
    answers: Mapping[str, str],
    stop_after: Callable[[list[str]], bool] | None = None,
    limit_s: float,
) -> Typed:
    """Run `line`. `answers`: what is typed when the last line on the screen ends with the key. `stop_after`: when Ctrl-C comes.

    The shell is ended after `limit_s` seconds, with everything that it started.
    """
    started = time.monotonic()
    kept = folder / "environment-after"
    kept.unlink(missing_ok=True)
    # The shell itself outlives a Ctrl-C that comes before it waits for the line's program, which gets the signal as usual.
    wrapped = f"trap : INT\n{line}\n__code=$?\nenv -0 >'{kept}'\nexit $__code\n"
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    argv = ["setsid", "--ctty", "bash", "-c", wrapped]
    if shutil.which("setpriv"):  # whoever kills the tests ends the shell too
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
    process = subprocess.Popen(
        argv, cwd=folder, env=dict(environment), stdin=there, stdout=there, stderr=there, start_new_session=False
    )
    os.close(there)
    raw, answered, interrupted = b"", -1, False
    try:
        while True:
            if time.monotonic() - started > limit_s:
                raise TimeoutError(f"{line}: not ended after {limit_s:.0f} s; it had printed\n" + "\n".join(screen(raw)))
            ready, _, _ = select.select([here], [], [], 0.2)
            if ready:
                try:
                    got = os.read(here, 1 << 16)
                except OSError:  # the last one who had the terminal open is gone
                    got = b""
                if not got:
                    break
                raw += got
            lines = screen(raw)
            question = next((key for key in answers if lines[-1].endswith(key.rstrip())), None)
            if question is not None and answered != len(lines):
                answered = len(lines)
                os.write(here, answers[question].encode() + b"\n")
            if stop_after is not None and not interrupted and stop_after(lines):
                interrupted = True
                os.write(here, CTRL_C)
        code = process.wait(30)
    finally:
        if process.poll() is None:
            _end(process.pid)
            process.wait(10)
        os.close(here)
    lines = screen(raw)
    while lines and not lines[-1]:
        lines.pop()
    after = kept.read_bytes().decode().split("\0") if kept.exists() else []
    pairs = dict(item.split("=", 1) for item in after if "=" in item) or dict(environment)
    return Typed(code, tuple(lines), {k: v for k, v in pairs.items() if k not in ("_", "SHLVL")}, time.monotonic() - started)


def _end(session: int) -> None:
    """Everything of the shell's session that is in its own group."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(session, number)
        except ProcessLookupError:
            return
        time.sleep(1)
