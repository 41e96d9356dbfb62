"""Versions of the programs that a rehearsal runs."""

from __future__ import annotations

import subprocess


def program_version(name: str, *words: str) -> str:
    """The first line that `NAME version` prints; empty when it is not there."""
    try:
        ran = subprocess.run([name, *(words or ("version",))], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (ran.stdout.splitlines() or [""])[0].strip()
