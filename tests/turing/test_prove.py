"""The proof on one release, each launch really compiled once; and that each way of being wrong is a problem it names."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from startup.turing import fetch, measure, prove
from startup.turing.tree import MODULE
from verdict.errors import CannotTell

LAYERS = ((256, 512), (512, 0))
FITS = prove.Cell("x", 512, 8, "prefill", False, 16, 32, 16, 98_304, 65_536)
NARROW = prove.Cell("x", 256, 8, "prefill", False, 16, 32, 32, 49_152, 49_152)
REFUSED = prove.Cell("x", 512, 32, "prefill", False, 16, 32, 16, 131_072, 98_304)
GOOD = (FITS, NARROW, REFUSED)


def but(cell, **changes):
    return dataclasses.replace(cell, **changes)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (GOOD, []),
        ((but(FITS, tile_after=32, bytes_after=98_304), NARROW, REFUSED), ["98304 bytes with the patch"]),
        ((but(FITS, tile_before=16, bytes_before=65_536), NARROW, REFUSED), ["everything fits without the patch"]),
        ((FITS, but(NARROW, bytes_after=50_000), REFUSED), ["not what limits.py says"]),
        ((FITS, NARROW, but(REFUSED, bytes_after=65_536)), ["not what limits.py says", "refused by the plan, but fits"]),
        ((REFUSED,), ["everything fits without the patch"]),
    ],
)
def test_what_speaks_against_the_patch(cells, said):
    problems = prove.judge("x", cells)
    assert len(problems) == len(said), problems
    for problem, words in zip(problems, said, strict=True):
        assert words in problem


def test_the_table_says_which_groups_are_refused():
    text = prove.table(prove.Proof(GOOD, (), "3"))
    assert "does not fit, refused by the plan" in text and "fits, not before" in text and text.endswith("Triton 3")
    assert "NOT PROVED" in prove.table(prove.Proof(GOOD, ("x",), "3"))


@pytest.fixture(scope="module")
def python():
    return fetched(fetch.triton_python)


@pytest.fixture(scope="module")
def tree():
    return fetched(lambda: fetch.sources(next(r for r in fetch.pinned() if r.version == "0.32.0")))


def fetched(get):
    """Without a package index nothing can be proved; in CI that is a failure."""
    try:
        return get()
    except CannotTell as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def known():
    """What this Triton and this `measure.py` said of a launch once, by all that it follows from: kept beside Triton itself."""
    made_by = hashlib.sha256(fetch.LOCK.read_bytes() + Path(measure.__file__).read_bytes()).hexdigest()[:12]
    file = fetch.cache() / f"measured-{made_by}.json"
    launches = json.loads(file.read_text()) if file.is_file() else {}
    before = dict(launches)
    yield launches
    if launches != before:
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_text(json.dumps(launches))
        temporary.replace(file)


def test_a_release_is_proved(tree, python, known):
    proof = prove.prove([("first", tree), ("second", tree)], LAYERS, python, groups=(8, 32), known=known)
    assert proof.problems == ()
    first = [c for c in proof.cells if c.release == "first"]
    assert len(first) == 2 * 9 and len(proof.cells) == 2 * len(first)
    assert {(c.tile_after, c.bytes_after) for c in first if (c.head, c.group, c.kind) == (512, 8, "prefill")} == {(16, 65_536)}
    assert {c.bytes_before for c in first if (c.head, c.group, c.kind) == (512, 8, "prefill")} == {98_304}
    assert any(c.three_d for c in first) and {c.block for c in first} == {16, 32}


def test_a_release_that_has_the_small_tile_already_is_not_proved(tree, python, known, tmp_path):
    shutil.copytree(tree, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "vllm" / MODULE
    text = file.read_text()
    assert text.count("    if is_prefill:\n        return 32\n") == 1
    file.write_text(text.replace("    if is_prefill:\n        return 32\n", "    if is_prefill:\n        return 16\n"))
    proof = prove.prove([("own", tmp_path)], [(512, 0)], python, groups=(8,), known=known)
    assert proof.problems == ("own: everything fits without the patch",)


def measured(python, tree, depths, blocks, known):
    """A split decode's bytes by depth and block, really compiled unless known; and all that is known then."""
    cells = [{"head": 256, "window": 512, "group": 8, "kind": "decode", "segments": 16, "block": block} for block in blocks]
    runs = [{"name": depth, "tree": str(tree), "capability": (7, 5), "compiled": depth} for depth in depths]
    done = subprocess.run(
        [python, "-I", "-W", "ignore", measure.__file__],
        input=json.dumps({"runs": runs, "cells": cells, "known": known}),
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    return [cell["bytes"] for depth in depths for cell in found[depth]], found["known"]


def test_the_short_way_and_the_compiler_report_the_same_and_a_known_launch_is_its_own(tree, python):
    """Planted: a number that no compiler gives. It comes back for its own launch in its own depth alone."""
    sizes, known = measured(python, tree, ("memory", "whole"), (16,), {})
    assert sizes == [32_768, 32_768] and sorted(known.values()) == sizes
    first = next(iter(known))
    (own, other), more = measured(python, tree, ("memory",), (16, 32), {first: 7})
    assert own == 7 and other > 7 and len(more) == 2 and more[first] == 7


def test_a_child_that_fails_is_told(tree, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\ncat >/dev/null\necho nothing works >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(CannotTell) as told:
        prove.prove([("x", tree)], [(512, 0)], broken, groups=(8,))
    assert "nothing works" in told.value.why
