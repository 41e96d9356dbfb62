"""IAM's evaluation, as a table."""

from typing import Any

import pytest

from rehearsal.cloud.aws import policies

GET = "s3:GetObject"
SCRIPT = "arn:aws:s3:::b/id/script"


def allow(**over: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": GET, "Resource": "*"} | over


CASES: list[tuple[str, list[dict[str, Any]], str, str, dict[str, str], bool]] = [
    ("nothing allows", [], GET, SCRIPT, {}, False),
    ("an allow", [allow()], GET, SCRIPT, {}, True),
    ("another action", [allow(Action="s3:PutObject")], GET, SCRIPT, {}, False),
    ("actions ignore case", [allow(Action="S3:getobject")], GET, SCRIPT, {}, True),
    ("resources do not", [allow(Resource="arn:aws:s3:::B/id/*")], GET, SCRIPT, {}, False),
    ("a prefix", [allow(Resource="arn:aws:s3:::b/id/*")], GET, SCRIPT, {}, True),
    ("another prefix", [allow(Resource="arn:aws:s3:::b/other/*")], GET, SCRIPT, {}, False),
    ("a star spans slashes", [allow(Resource="arn:aws:s3:::b/*")], GET, SCRIPT, {}, True),
    ("six characters", [allow(Resource="arn:x:name-??????")], GET, "arn:x:name-AbCdEf", {}, True),
    ("not seven", [allow(Resource="arn:x:name-??????")], GET, "arn:x:name-AbCdEfG", {}, False),
    ("a deny wins", [allow(), allow(Effect="Deny")], GET, SCRIPT, {}, False),
    ("NotAction", [{"Effect": "Allow", "NotAction": "s3:PutObject", "Resource": "*"}], GET, SCRIPT, {}, True),
    ("NotResource", [{"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::b/*"}], GET, SCRIPT, {}, False),
    (
        "a condition that holds",
        [allow(Condition={"StringEquals": {"ec2:ResourceTag/id": "a"}})],
        GET,
        SCRIPT,
        {"ec2:ResourceTag/id": "a"},
        True,
    ),
    (
        "one that does not",
        [allow(Condition={"StringEquals": {"ec2:ResourceTag/id": "a"}})],
        GET,
        SCRIPT,
        {"ec2:ResourceTag/id": "b"},
        False,
    ),
    ("a key that is missing", [allow(Condition={"StringEquals": {"ec2:ResourceTag/id": "a"}})], GET, SCRIPT, {}, False),
    ("missing but IfExists", [allow(Condition={"StringEqualsIfExists": {"x:y": "a"}})], GET, SCRIPT, {}, True),
    ("not equal to what is missing", [allow(Condition={"StringNotEquals": {"x:y": "a"}})], GET, SCRIPT, {}, True),
    (
        "like",
        [allow(Condition={"ArnLike": {"aws:SourceArn": ["arn:aws:x:*"]}})],
        GET,
        SCRIPT,
        {"aws:SourceArn": "arn:aws:x:1"},
        True,
    ),
    ("null", [allow(Condition={"Null": {"x:y": "true"}})], GET, SCRIPT, {}, True),
]


@pytest.mark.parametrize(
    ("statements", "action", "resource", "context", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_allowed(statements: list[dict[str, Any]], action: str, resource: str, context: dict[str, str], wanted: bool) -> None:
    assert policies.allowed([{"Statement": statements}], action, resource, context) is wanted


def test_a_condition_that_is_not_evaluated_is_never_a_grant() -> None:
    with pytest.raises(ValueError, match="IpAddress"):
        policies.allowed([{"Statement": [allow(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})]}], GET, SCRIPT)


def test_trust() -> None:
    document = {"Statement": {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}}
    assert policies.trusts(document, "ec2.amazonaws.com") and not policies.trusts(document, "scheduler.amazonaws.com")
