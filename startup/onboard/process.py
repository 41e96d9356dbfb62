"""One phase as a process group: its lines as they come, its limit kept, nothing of it left when it is over."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TAIL_LINES = 30
LINE_LENGTH = 2000
MARK = "FLEXSERVE_RUN"


@dataclass(frozen=True)
class Ended:
    """How a phase ended. `status` None: its limit passed (or the boot was told to stop) and its group was killed."""

    status: int | None
    tail: tuple[str, ...]


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    limit: float,
    line: Callable[[str], None],
    *,
    stop: threading.Event,
    tick: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a command in a group of its own. `tick` is called about twice a second while it runs."""
    process = subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    reader = threading.Thread(target=_read, args=(process, tail, line), daemon=True)
    reader.start()
    waiter = threading.Thread(target=process.wait, daemon=True)  # hears of the end at once; `wait` with a limit looks now and then
    waiter.start()
    until = time.monotonic() + limit
    ticked = time.monotonic()
    while waiter.is_alive() and time.monotonic() < until and not stop.is_set():
        waiter.join(0.1)
        if time.monotonic() - ticked > 0.5:
            ticked = time.monotonic()
            tick()
    status = None if waiter.is_alive() else process.returncode
    if status is None:
        _kill(process.pid, signal.SIGTERM)
        waiter.join(3)
    _kill(process.pid, signal.SIGKILL)
    waiter.join()
    reader.join(2)
    return Ended(status, tuple(tail))


def marked() -> list[int]:
    """Processes that a boot before this one left on this machine (killed, so that it could not end them)."""
    run_folder = mark().encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # gone meanwhile, or not ours
            if f"{MARK}=".encode() + run_folder in environment:
                found.append(int(entry.name))
    return found


def sweep(seconds: float = 5) -> int:
    """End what an earlier boot left; how many there were."""
    found = left = marked()
    until = time.monotonic() + seconds
    while left and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        left = marked()
    return len(found)


def mark() -> str:
    """What the processes of a boot carry in their environment. It is another one on another machine or after a restart."""
    from startup.onboard.places import RUN

    about = RUN.stat()
    return f"{about.st_dev}:{about.st_ino}"


def _kill(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _read(process: subprocess.Popen[bytes], tail: deque[str], line: Callable[[str], None]) -> None:
    assert process.stdout is not None
    for raw in process.stdout:
        text = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2][:LINE_LENGTH]
        tail.append(text)
        line(text)
