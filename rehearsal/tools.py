"""Versions of the programs that a rehearsal runs, and why a provider plugin is a stand-in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from verdict.places import below_home


def program_version(name: str, *words: str) -> str:
    """The first line that `NAME version` prints; empty when it is not there."""
    try:
        ran = subprocess.run([name, *(words or ("version",))], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (ran.stdout.splitlines() or [""])[0].strip()


def why_stand_in(provider: str, environ: Mapping[str, str] = os.environ) -> str:
    """Why the plugin of `gcp` or `aws` is not Pulumi's own, and how to get that one."""
    home = Path(environ.get("PULUMI_HOME") or below_home(environ, ".pulumi"))
    if (home / "plugins" / f"resource-{provider}-v{version(f'pulumi-{provider}')}").is_dir():
        return "the official plugin is there, and was not tried against the local cloud"
    if environ.get("FLEXSERVE_DOWNLOADS") == "no":
        return "downloads are switched off by FLEXSERVE_DOWNLOADS=no; unset it, and make setup fetches the official plugin"
    return "the official plugin is not there; make setup fetches it where Pulumi's download site can be reached"
