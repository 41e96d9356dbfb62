"""The rendered scripts as files, so that a review sees what the machine will run. `FLEXSERVE_SNAPSHOTS=write` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from startup import image
from startup.render import render
from tests.startup import specs


def _endpoint(name: str) -> bytes:
    """A file of an image, without the hash over all that is added to it: that changes with every module which is carried."""
    hashed = image.image_key(specs.ENDPOINT).encode()
    return render(specs.ENDPOINT).files[name].replace(hashed, hashed.rpartition(b"-")[0] + b"-HASH")


FOLDER = Path(__file__).parent / "snapshots"
FILES = {
    "plain.stub.sh": lambda: render(specs.PLAIN).stub,
    "plain.sh": lambda: render(specs.PLAIN).script,
    "spot.stub.sh": lambda: render(specs.SPOT).stub,
    "spot.sh": lambda: render(specs.SPOT).script,
    "builder.stub.sh": lambda: render(specs.BUILDER).stub,
    "builder.sh": lambda: render(specs.BUILDER).script,
    "endpoint.Dockerfile": lambda: _endpoint("Dockerfile"),
    "endpoint.buildspec.yml": lambda: _endpoint("buildspec.yml"),
    "endpoint.build.sh": lambda: _endpoint("build.sh"),
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
