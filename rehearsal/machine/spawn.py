"""Starts launchers from one thread that lives as long as this process.

A launcher asks the kernel to be killed when its parent dies, and the kernel means the *thread* that started it: a machine
started from a request's thread would lose its power with the end of that request.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

_Work = tuple[Callable[[], "subprocess.Popen[bytes]"], "Future[subprocess.Popen[bytes]]"]
_work: queue.Queue[_Work] = queue.Queue()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def spawn(argv: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that dies with this one; its output is appended to `log`."""

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(environment), start_new_session=True
            )

    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_run, name="launchers", daemon=True)
            _thread.start()
    future: Future[subprocess.Popen[bytes]] = Future()
    _work.put((start, future))
    return future.result(timeout=30)


def _run() -> None:
    while True:
        start, future = _work.get()
        try:
            future.set_result(start())
        except BaseException as error:
            future.set_exception(error)
