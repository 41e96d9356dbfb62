"""The machine's root file system, a plain folder. It is only ever read: machines lay their own disk over it."""

from __future__ import annotations

import shutil
from pathlib import Path

from rehearsal.machine.build.recipe import ROOT_PACKAGES
from rehearsal.machine.build.sources import Sources
from rehearsal.machine.build.tool import mmdebstrap

NOT_KEPT = ("var/lib/apt/lists", "etc/apt/sources.list.d", "usr/share/doc", "usr/share/man", "usr/share/locale")
"""Folders of the root that are emptied: large, or telling where the host gets its packages."""


def build(into: Path, sources: Sources) -> None:
    """Fill the empty folder `into`."""
    mmdebstrap("minbase", ROOT_PACKAGES, into, sources, ["--format=directory"])
    for folder in NOT_KEPT:
        shutil.rmtree(into / folder, ignore_errors=True)
        (into / folder).mkdir(parents=True, exist_ok=True)
    for file in ("etc/apt/sources.list", "etc/resolv.conf", "etc/hostname", "etc/machine-id"):
        (into / file).unlink(missing_ok=True)
    (into / "etc/machine-id").touch()  # empty: the first boot of each disk makes its own
