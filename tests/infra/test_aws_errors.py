"""AWS's words and what they mean: every row by an example in the cloud's own words."""

import tomllib
from pathlib import Path

import pytest

from infra.clouds.aws import errors
from infra.clouds.aws.session import Session
from verdict.errors import BadConfig

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
    at_once = {"stock-out", "price-too-low", "zone-without-type", "launch-failed"}
    assert {r.name for r in errors.rows() if r.elsewhere == "place"} == at_once
    assert {r.name for r in errors.rows() if r.elsewhere not in ("", "place")} == {"quota"}
    assert {errors.explain("", r.code.split("|")[0]).elsewhere for r in errors.rows() if r.name in ("quota", "stock-out")} == {
        "place",
        "quota",
    }


PRINTED = (
    "creating urn:pulumi:s::flexserve::aws:ec2/instance:Instance::vm: 1 error occurred:\n\t* creating EC2 Instance: operation "
)
GO = "error EC2: RunInstances, https response error StatusCode: 500, RequestID: 1f-2e, "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            f"{PRINTED}{GO}api error InsufficientInstanceCapacity: There is none.\n\n",
            "InsufficientInstanceCapacity: There is none.",
        ),
        (
            f"  sdk-v2/provider2.go:572: sdk.helper_schema: creating EC2 Instance: operation {GO}api error Unsupported: Not "
            "there.: provider=aws@7.51.1",
            "Unsupported: Not there.",
        ),
        (
            "operation error SSM: CreateAssociation, https response error StatusCode: 400, RequestID: 1, InvalidTarget: No such.",
            "InvalidTarget: No such.",
        ),
        (
            "An error occurred (AccessDenied) when calling the GetRole operation (reached max retries: 4): User: me may not",
            "AccessDenied: User: me may not",
        ),
        (
            f"{PRINTED}{GO}api error UnauthorizedOperation: You may not: ec2:RunInstances. Encoded authorization failure message: "
            "Ab3_x-9Q\n\n",
            "UnauthorizedOperation: You may not: ec2:RunInstances.",
        ),
        ("Server.InternalError: Internal error on launch", "Server.InternalError: Internal error on launch"),
        ("1 error occurred:\n\t* waiting for EC2 Instance (i-1) create: timeout", "waiting for EC2 Instance (i-1) create: timeout"),
    ],
)
def test_why_is_what_aws_said_and_nothing_around_it(text, words):
    assert errors.said(text) == words


@pytest.mark.parametrize(
    ("code", "kind", "exit_code"), [("AccessDenied", "no-access", 5), ("InsufficientInstanceCapacity", "no-capacity", 4)]
)
def test_exit_codes(code, kind, exit_code):
    error = errors.from_words("some words", code)
    assert (error.kind, int(error.exit_code)) == (kind, exit_code)


def test_unknown_words_are_shown_as_they_are():
    assert errors.explain("the moon is full") is None
    assert "the moon is full" in errors.from_words("the moon is full", "Luna").why


@pytest.mark.parametrize("value", ["garbage", "http://[::1", "://"])
def test_an_endpoint_that_is_no_address_is_bad_config(monkeypatch, value):
    for name, text in (("AWS_ENDPOINT_URL", value), ("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "y")):
        monkeypatch.setenv(name, text)
    with pytest.raises(BadConfig) as error:
        Session("us-east-1", sleep=lambda s: None).call("ec2", "describe_instances")
    assert "AWS_ENDPOINT_URL" in error.value.way_out
