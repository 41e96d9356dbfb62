"""Rehearsals need a machine that can boot; where none can, they are skipped, except in CI, where that is a failure."""

from __future__ import annotations

import os

import pytest

from rehearsal.machine.capable import missing


@pytest.fixture(scope="session")
def bootable() -> None:
    """Skip with the reason, or fail in CI."""
    if lacking := missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no machine can be booted: {'; '.join(lacking)}")
