"""Boot specs and rendered scripts for the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rehearsal.machine import authority
from tests.startup.world import NAMES, World, available


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority.make(folder, NAMES)
    return folder


@contextmanager
def made(folder: Path, tls: Path) -> Iterator[World]:
    """In CI a host that can make none is a failure."""
    if why := available():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    world = World(folder, tls)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def world(tmp_path: Path, tls: Path) -> Iterator[World]:
    with made(tmp_path / "world", tls) as world:
        yield world


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, tls: Path) -> Iterator[World]:
    """One world for the tests of a file, which begin with `World.anew` where they want another machine."""
    with made(tmp_path_factory.mktemp("machine") / "world", tls) as world:
        yield world
