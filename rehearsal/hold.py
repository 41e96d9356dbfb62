"""Hold a rehearsal up while it serves, so that commands can be typed against it from a second terminal.

That terminal gets what the rehearsal's own commands get: a file to read in, with the same folder and the same variables.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType

from rehearsal.product import Product

FILE = "environment.sh"
_STOPS = (signal.SIGTERM, signal.SIGHUP)
FOREIGN = r"^(AWS|CLOUDSDK|FLEXSERVE|GOOGLE|GCE|HF|PULUMI|SSL_CERT)_|_(proxy|PROXY)$"
"""Variables that lead to an account or through a proxy of the operator's own: the rehearsal's commands see none of them."""

Wait = Callable[[float], object]
"""Returns after so many seconds; raises KeyboardInterrupt at Ctrl-C."""


def hold(product: Product, folder: Path, stack: str, seconds: float, *, wait: Wait | None = None) -> bool:
    """Say what to type elsewhere, and wait. Whether the time passed; False after Ctrl-C or a stop. The file is gone afterwards."""
    file = folder / FILE
    write_anew(file, environment_file(product.project, product.environment))
    until = datetime.now().astimezone() + timedelta(seconds=seconds)
    for line in (
        f"held until {until:%H:%M:%S}; in a second terminal type",
        f"  . {shlex.quote(str(file))}",
        *(f"  flexserve {command} -s {stack}" for command in ("status", "tunnel", "smoke", "logs")),
        "Ctrl-C here, or the end of the time, goes on to the teardown and the verdict",
    ):
        product.say(line)
    try:
        with stopped_by_signals():
            (wait or threading.Event().wait)(seconds)
    except KeyboardInterrupt:
        product.say("held no longer")
        return False
    finally:
        file.unlink(missing_ok=True)
    return True


def write_anew(file: Path, text: str) -> None:
    """A file of ours alone: whatever bears the name goes, a link is not followed."""
    file.unlink(missing_ok=True)
    # The local cloud's credentials are worth nothing elsewhere, and are nobody else's all the same.
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """While the block lasts SIGTERM and SIGHUP end it as Ctrl-C does; one that is ignored (nohup) stays so.

    They would end the process where it stands, with the file, the machines and the local cloud's processes left.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals can only be taken in the main thread
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    taken = [number for number in _STOPS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def environment_file(project: Path, environment: Mapping[str, str]) -> str:
    """For any POSIX shell to read in: what leads elsewhere is unset, then the rehearsal's variables and its private project."""
    names = "env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p' | grep -E " + shlex.quote(FOREIGN)
    lines = [
        "# Read in by a shell: its flexserve then works against a rehearsal that is held. Close that shell afterwards.",
        f'for name in $({names}); do unset "$name"; done',
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())),
        f"cd {shlex.quote(str(project))}",
    ]
    return "\n".join(lines) + "\n"
