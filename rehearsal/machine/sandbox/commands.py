"""Stand-in commands of the sandbox: package manager, service manager, journal. `python -m …commands NAME ARGS`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rehearsal.machine.sandbox import docker
from rehearsal.machine.vllm.start import ask

NAMES = ("apt-get", "apt-mark", "dpkg", "systemctl", "journalctl", "docker", "shutdown")
REBOOT = 133


def main(name: str, words: list[str]) -> int:
    """The exit code of one stand-in command."""
    if name == "docker":
        return docker.main(words)
    if name == "apt-get":
        return apt_get(words)
    if name in ("systemctl", "shutdown"):
        return systemctl(words if name == "systemctl" else ["reboot" if "-r" in words else "poweroff"])
    return 0


def apt_get(words: list[str]) -> int:
    """Installing docker.io leaves a `dockerd` on PATH; nothing else happens."""
    fault = ask("behaviour").get("faults", {}).get("packages", "")
    if fault == "down" or (fault == "missing" and "install" in words):
        what = "Packages  Connection failed" if fault == "down" else "docker.io_1_all.deb  404  Not Found"
        print(f"E: Failed to fetch http://packages.rehearsal.internal/./{what}", file=sys.stderr)
        return 100
    if "install" in words:
        ask("hold/packages")
        if "docker.io" in words:
            docker.install()
    return 0


def systemctl(words: list[str]) -> int:
    """Power, docker, and starting a unit that the script wrote; all else is done by saying so."""
    verbs = [word for word in words if not word.startswith("-")]
    if verbs[:1] in (["poweroff"], ["reboot"], ["halt"]):
        Path("/run/sandbox-off").write_text(str(REBOOT if verbs[0] == "reboot" else 0))
    units = [unit.removesuffix(".service").removesuffix(".socket") for unit in verbs[1:]]
    if "docker" in units and verbs[0] in ("start", "enable", "restart"):
        docker.daemon(on=True)
    if "docker" in units and verbs[0] in ("stop", "mask", "kill"):
        docker.daemon(on=False)
    if verbs[:1] == ["start"] or "--now" in words:
        for unit in units:
            file = Path(f"/etc/systemd/system/{unit}.service")
            command = re.search(r"^ExecStart=(.+)$", file.read_text(), re.MULTILINE) if file.is_file() else None
            if command:
                with Path("/dev/null").open("r+b") as null:
                    subprocess.Popen(["sh", "-c", command[1]], stdin=null, stdout=null, stderr=null, start_new_session=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
