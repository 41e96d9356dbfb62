"""AWS's words and what they mean: every row by an example in the cloud's own words."""

import tomllib
from pathlib import Path

import pytest

from infra.clouds.aws import errors

CASES = tomllib.loads((Path(__file__).parent / "aws_errors.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_words(case):
    row = errors.meaning(case.get("text", ""), case.get("code", ""))
    assert (row.name if row else None) == case.get("means")


@pytest.mark.parametrize("row", errors.rows(), ids=lambda r: r.name)
def test_every_row_has_an_example_and_a_way_out(row):
    assert any(case.get("means") == row.name for case in CASES)
    assert row.kind in errors.CLASSES and row.what and row.way_out and row.source


def test_what_another_place_may_help_is_said():
    assert {r.name for r in errors.rows() if r.elsewhere} == {"stock-out", "price-too-low", "zone-without-type", "launch-failed"}


@pytest.mark.parametrize(
    ("code", "kind", "exit_code"), [("AccessDenied", "no-access", 5), ("InsufficientInstanceCapacity", "no-capacity", 4)]
)
def test_exit_codes(code, kind, exit_code):
    error = errors.from_words("some words", code)
    assert (error.kind, int(error.exit_code)) == (kind, exit_code)


def test_unknown_words_are_shown_as_they_are():
    assert errors.explain("the moon is full") is None
    assert "the moon is full" in errors.from_words("the moon is full", "Luna").why
