"""Rehearsals need a machine that can boot; where none can, they are skipped, except in CI, where that is a failure."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from rehearsal.machine.capable import missing


@pytest.fixture(scope="session")
def bootable() -> None:
    """Skip with the reason, or fail in CI."""
    if lacking := missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no machine can be booted: {'; '.join(lacking)}")


@pytest.fixture(scope="session")
def session_manager() -> None:
    """AWS's Session Manager plugin where a rehearsal's commands look for it; else the same."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    if shutil.which("session-manager-plugin", path=path) is None:
        lacking = "no session-manager-plugin: python3 -m tools.setup session-manager-plugin"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(lacking)
