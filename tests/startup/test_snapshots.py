"""The rendered scripts as files, so that a review sees what the machine will run. `FLEXSERVE_SNAPSHOTS=write` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from startup.render import render
from tests.startup import specs

FOLDER = Path(__file__).parent / "snapshots"
FILES = {
    "plain.stub.sh": lambda: render(specs.PLAIN).stub,
    "plain.sh": lambda: render(specs.PLAIN).script,
    "spot.stub.sh": lambda: render(specs.SPOT).stub,
    "spot.sh": lambda: render(specs.SPOT).script,
    "endpoint.Dockerfile": lambda: render(specs.ENDPOINT).files["Dockerfile"],
    "endpoint.buildspec.yml": lambda: render(specs.ENDPOINT).files["buildspec.yml"],
    "endpoint.build.sh": lambda: render(specs.ENDPOINT).files["build.sh"],
}


@pytest.mark.parametrize("name", FILES)
def test_the_rendering_is_the_one_that_was_reviewed(name):
    rendered = FILES[name]()
    path = FOLDER / name
    if os.environ.get("FLEXSERVE_SNAPSHOTS") == "write":
        path.write_bytes(rendered)
    assert path.read_bytes() == rendered, "review the change, then run with FLEXSERVE_SNAPSHOTS=write"


def test_no_snapshot_is_left_over():
    assert {p.name for p in FOLDER.iterdir()} == set(FILES)
