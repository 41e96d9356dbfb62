"""The parts of the rehearsal's machine, each built by `rehearsal.machine.build` and kept by the key that it prints."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tools.setup.cache import scratch
from tools.setup.host import Host
from tools.setup.step import REHEARSAL, Skip, Step, StepFailed
from tools.setup.steps import apt
from tools.setup.work import Work

_ABOUT = {
    "root": "the machine's root file system, with what its cloud's image has",
    "images": "the container image's system",
    "repo": "the machine's own package repository, with Docker in it",
}
_TAKES_MB = {"root": 900, "images": 150, "repo": 900}  # while it is built; a third of it stays

# Bootstrapping mounts /proc, /sys and /dev into the new root. In namespaces of its own these end with it, however it ends.
_ALONE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--")


def _python(host: Host) -> list[object]:
    return [host.bin / "python", "-m", "rehearsal.machine.build"]


def key(part: str, host: Host) -> str:
    """What the builder prints; empty where it cannot run (no environment yet, no package sources)."""
    argv = [str(word) for word in [*_python(host), part, "--key"]]
    try:
        said = subprocess.run(
            argv, cwd=host.root, env=host.child_environ(), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def folder(part: str, host: Host) -> Path | None:
    """Where the machine looks for the part."""
    name = key(part, host)
    return host.cache / f"machine-{part}-{name}" if name else None


def done(part: str, host: Host) -> str | None:
    """Built with today's recipe."""
    there = folder(part, host)
    return f"built: {there}" if there is not None and there.is_dir() else None


def run(part: str, host: Host, work: Work) -> str:
    """Build it as root; elsewhere the rehearsal uses its sandbox."""
    if not host.is_root or apt.missing(host):
        raise Skip("no booted machine on this host: the rehearsal uses its sandbox, and its verdict says so")
    target = folder(part, host)
    if target is None:
        raise StepFailed(f"{' '.join(map(str, _python(host)))} {part} --key says nothing", way_out="run it and read why")
    work.say(f"builds {target.name}")
    with scratch(target) as temporary:
        argv = [*_ALONE, *_python(host), part, "--into", temporary / "out"]
        if part == "repo":
            argv += ["--root", folder("root", host)]
        work.command(argv, environ=host.child_environ(FLEXSERVE_CACHE=str(host.cache)), cwd=host.root)
        (temporary / "out").rename(target)
    return done(part, host) or ""


def _step(part: str, *needs: str) -> Step:
    return Step(
        f"machine-{part}",
        _ABOUT[part],
        functools.partial(key, part),
        functools.partial(done, part),
        functools.partial(run, part),
        functools.partial(folder, part),
        needs=("venv", "apt", *needs),
        group=REHEARSAL,
        limit_s=1800.0,
        takes_mb=_TAKES_MB[part],
    )


STEPS = (_step("root"), _step("images"), _step("repo", "machine-root"))
