"""Hold a rehearsal up while it serves, so that commands can be typed against it from a second terminal.

That terminal gets what the rehearsal's own commands get: a file to read in, with the same folder and the same variables.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from rehearsal.product import Product

FILE = "environment.sh"
FOREIGN = r"^(AWS|CLOUDSDK|FLEXSERVE|GOOGLE|GCE|HF|PULUMI|SSL_CERT)_|_(proxy|PROXY)$"
"""Variables that lead to an account or through a proxy of the operator's own: the rehearsal's commands see none of them."""

Wait = Callable[[float], object]
"""Returns after so many seconds; raises KeyboardInterrupt at Ctrl-C."""


def hold(product: Product, folder: Path, stack: str, seconds: float, *, wait: Wait | None = None) -> bool:
    """Say what to type elsewhere, and wait. Whether the time passed; False after Ctrl-C. The file is gone afterwards."""
    file = folder / FILE
    file.touch(mode=0o600)  # the local cloud's credentials are worth nothing elsewhere, and nobody else's all the same
    file.write_text(environment_file(product.project, product.environment), encoding="utf-8")
    until = datetime.now().astimezone() + timedelta(seconds=seconds)
    for line in (
        f"held until {until:%H:%M:%S}; in a second terminal type",
        f"  . {shlex.quote(str(file))}",
        *(f"  flexserve {command} -s {stack}" for command in ("status", "tunnel", "smoke", "logs")),
        "Ctrl-C here, or the end of the time, goes on to the teardown and the verdict",
    ):
        product.say(line)
    try:
        (wait or threading.Event().wait)(seconds)
    except KeyboardInterrupt:
        product.say("held no longer")
        return False
    finally:
        file.unlink(missing_ok=True)
    return True


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
