"""Machines for the tests, and what they need of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rehearsal.machine import assets
from rehearsal.machine.capable import missing
from rehearsal.machine.room import MachineRoom
from verdict.errors import FlexserveError


def _why_not() -> str:
    if lacking := missing():
        return "no machine can be booted here: " + "; ".join(lacking)
    try:
        assets.locate()
    except FlexserveError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineRoom]:
    """One room for all tests of booted machines. In CI a host that cannot boot one is a failure."""
    if why := _why_not():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with MachineRoom(tmp_path_factory.mktemp("room")) as room:
        yield room
    assert room.inventory().empty(), room.inventory()
