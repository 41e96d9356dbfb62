"""The table of changes: what is done in place, and what needs a new thing."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.providers.aws.resources import RESOURCES
from tests.providers.direct import Direct, Made
from tests.providers_aws.account import Account, account, provider_for
from tests.providers_aws.program import PARTS, Program

ROWS = tomllib.loads((Path(__file__).parent / "changes.toml").read_text(encoding="utf-8"))["change"]


@pytest.fixture(scope="module")
def everything() -> Iterator[tuple[Direct, dict[str, tuple[Made, dict[str, Any]]]]]:
    """One of each that a row is about, read back as after a refresh; nothing of this module changes them."""
    with account() as owner, provider_for(owner) as direct:
        program = Program(owner, direct)
        yield direct, {name: _made(owner, direct, program, name) for name in {row["of"] for row in ROWS}}


def _made(owner: Account, direct: Direct, program: Program, name: str) -> tuple[Made, dict[str, Any]]:
    refreshed = direct.read(program.make(name))
    assert refreshed is not None
    return refreshed, program.arguments(name)[1]


def changed(arguments: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the row's change: keys are paths."""
    new = copy.deepcopy(arguments)
    for path, value in row.get("set", {}).items():
        *way, last = path.split(".")
        here = new
        for key in way:
            here = here[int(key)] if isinstance(here, list) else here[key]
        here[last] = value
    for key in row.get("unset", []):
        del new[key]
    return new


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['of']}-{'-'.join([*row.get('set', {}), *row.get('unset', [])])}" for row in ROWS])
def test_change(everything: tuple[Direct, dict[str, tuple[Made, dict[str, Any]]]], row: dict[str, Any]) -> None:
    direct, there = everything
    made, arguments = there[row["of"]]
    inputs = direct.check(made.type, changed(arguments, row), row["of"], made.inputs)
    answer = direct.diff(made, inputs)
    assert (answer.op, dict(answer.changes)) == (row["op"], row["paths"])


def test_every_resource_has_a_row() -> None:
    without = {"aws:ec2/eip:Eip"}  # but for its tags nothing of it that is used can change
    assert {PARTS[row["of"]][0] for row in ROWS} == RESOURCES.keys() - without
