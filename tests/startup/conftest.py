"""Boot specs and rendered scripts for the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.machine import authority
from tests.startup.world import NAMES, World, available


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority.make(folder, NAMES)
    return folder


@pytest.fixture
def world(tmp_path: Path, tls: Path) -> Iterator[World]:
    """In CI a host that can make none is a failure."""
    if why := available():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    world = World(tmp_path / "world", tls)
    yield world
    world.close()
