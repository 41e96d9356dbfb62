"""Debian and Ubuntu packages, installed only where that displaces nothing."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Sequence

from tools.setup.host import Host
from tools.setup.step import StepFailed
from tools.setup.work import Work

# Whatever serves containers on this host stays as it is: the rehearsal's own engine lives in the machine's root.
_ENGINES = re.compile(r"^(docker|containerd|runc|podman|moby-|docker-registry)")
_APT = threading.Lock()


def refusals(simulation: str) -> list[str]:
    """What speaks against an installation, from `apt-get install --simulate`: removals, container engines."""
    found = []
    for line in simulation.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        if words[0] in ("Remv", "Purg"):
            found.append(f"it would remove {words[1]}")
        elif words[0] == "Inst" and _ENGINES.match(words[1]):
            found.append(f"it would install or change {words[1]}")
    return found


def install(host: Host, work: Work, packages: Sequence[str], *, purpose: str) -> None:
    """Install packages. Raises `StepFailed` without root, when something would be displaced, or when apt fails."""
    by_hand = f"as root: apt-get update && apt-get install --no-install-recommends {' '.join(packages)}"
    if not host.is_root:
        raise StepFailed(f"{purpose} needs {', '.join(packages)}, and only root can install them", way_out=by_hand)
    environ = host.child_environ(DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    patient = ["-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=120"]
    with _APT:
        work.say("apt-get update")
        work.command(["apt-get", *patient, "update"], environ=environ)
        work.say(f"apt-get install {' '.join(packages)}")
        argv = ["apt-get", *patient, "install", "-y", "--no-install-recommends", *packages]
        simulated = subprocess.run(
            [*argv, "--simulate"],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        if against := refusals(simulated.stdout):
            raise StepFailed(f"apt-get would change this host's engine: {'; '.join(against)}", way_out=by_hand)
        work.command(argv, environ=environ)
