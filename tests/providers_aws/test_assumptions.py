"""Every assumption has a source, a known kind of evidence, and a test that is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rehearsal.providers.aws.resources import RESOURCES
from tools.docs.aws_provider import ASSUMPTIONS

ROWS = tomllib.loads(ASSUMPTIONS.read_text(encoding="utf-8"))["assumption"]
EVIDENCE = {"source", "documented", "reported", "inferred", "deviation"}


@pytest.mark.parametrize("row", ROWS, ids=[str(number) for number, _ in enumerate(ROWS)])
def test_row(row: dict[str, Any]) -> None:
    assert row.keys() == {"about", "what", "source", "evidence", "held_by"}
    assert all(row.values())
    assert row["evidence"] in EVIDENCE
    file, _, name = row["held_by"].partition("::")
    assert re.search(rf"^def {name}\(", (Path(__file__).parent / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_they_are_about_resources_that_there_are() -> None:
    there = {f"{token.split(':')[1].split('/')[0]}.{token.rpartition(':')[2]}" for token in RESOURCES}
    assert {row["about"] for row in ROWS} <= there | {"all"}
