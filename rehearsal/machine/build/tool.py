"""The programs that build: mmdebstrap and others, their failures told with their last words."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rehearsal.machine.build.sources import Sources
from verdict.errors import FlexserveError


def into_place(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder beside `target` and rename it when it is whole: a build that was cut short leaves no half result."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        scratch.chmod(0o755)
        fill(scratch)
        if target.exists():
            shutil.rmtree(target)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def mmdebstrap(variant: str, packages: Sequence[str], into: Path, sources: Sources, options: Sequence[str]) -> None:
    """Fill `into` with a system of these packages; nothing of the host is changed. Raises `FlexserveError`."""
    command = ["mmdebstrap", "--quiet", "--mode=root", f"--variant={variant}", f"--include={','.join(packages)}"]
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        file.write(sources.text)
        file.flush()
        run([*command, *options, sources.codename, str(into), file.name], "mmdebstrap")


def run(argv: Sequence[str], what: str) -> None:
    """Run it to its end. Raises `FlexserveError` with the last lines of what it said."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError as error:
        raise FlexserveError(f"{what} is not installed", way_out=f"install it: apt-get install {argv[0]}") from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise FlexserveError(f"{what} failed with exit code {done.returncode}", why=tail)


def sha256(data: bytes) -> str:
    """The digest as registries write it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
