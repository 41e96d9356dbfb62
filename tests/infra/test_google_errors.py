"""Google's words and what they mean: every row by an example in the cloud's own words."""

import json
import tomllib
from pathlib import Path

import pytest

from infra.clouds.google import errors

CASES = tomllib.loads((Path(__file__).parent / "google_errors.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_words(case):
    row = errors.meaning(case.get("text", ""), case.get("code", ""))
    assert (row.name if row else None) == case.get("means")


@pytest.mark.parametrize("row", errors.rows(), ids=lambda r: r.name)
def test_every_row_has_an_example_and_a_way_out(row):
    assert any(case.get("means") == row.name for case in CASES)
    assert row.kind in errors.CLASSES and row.what and row.way_out and row.source


def body(message, *reasons, status=403):
    return json.dumps({"error": {"code": status, "message": message, "errors": [{"reason": r} for r in reasons]}}).encode()


@pytest.mark.parametrize(
    ("status", "content", "kind", "exit_code"),
    [
        (403, body("Required 'compute.instances.list' permission for 'projects/p'", "forbidden"), "no-access", 5),
        (403, body("Quota 'X' exceeded.  Limit: 0.0 in region r.", "quotaExceeded"), "no-access", 5),
        (403, body("Rate Limit Exceeded", "rateLimitExceeded"), "failed", 1),
        (401, b"", "no-access", 5),
        (403, b"<html>proxy says no</html>", "no-access", 5),
        (418, b"{}", "failed", 1),
        (400, body("something else", "invalid"), "failed", 1),
    ],
)
def test_answers(status, content, kind, exit_code):
    error = errors.from_answer(status, content)
    assert (error.kind, int(error.exit_code)) == (kind, exit_code)


def test_unknown_words_are_shown_as_they_are():
    assert errors.explain("the moon is full") is None
    assert "the moon is full" in errors.from_words("the moon is full", "LUNA").why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "  sdk-v2/provider2.go:572: sdk.helper_schema: Error creating instance: googleapi: Error 403: Quota 'X' exceeded.  "
            "Limit: 0.0 in region us-central1., quotaExceeded: provider=google-beta@10.2.0",
            "Quota 'X' exceeded. Limit: 0.0 in region us-central1",
        ),
        (
            "creating urn:pulumi:s::p::gcp:compute/instance:Instance::vm: 1 error occurred:\n\t* Error waiting for instance to "
            "create: "
            "The zone 'z' does not have enough resources available to fulfill the request.\n\n",
            "The zone 'z' does not have enough resources available to fulfill the request.",
        ),
        ("Permission 'a.b.c' denied, on p", "Permission 'a.b.c' denied, on p"),
    ],
)
def test_why_is_what_google_said_and_nothing_around_it(text, words):
    assert errors.said(text) == words
