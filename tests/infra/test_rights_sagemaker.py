"""What the operator's credentials have to allow, as the page says it: the product's own calls, and the policies that are pasted.

What a rehearsed life asks for is held to the same file in `tests/rehearsal/test_life_sagemaker.py` and its neighbours.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rehearsal.cloud.aws import authorise, wire
from rehearsal.cloud.aws.call import Call, Caller
from rehearsal.cloud.aws.policies import allowed
from tests.conftest import ROOT
from tools.docs.sagemaker_rights import WHO, actions, load, policy

TABLE = load()
SERVICES = (
    "application-autoscaling",
    "budgets",
    "codebuild",
    "ecr",
    "iam",
    "logs",
    "s3",
    "sagemaker",
    "scheduler",
    "secretsmanager",
)
CALLS = re.compile(rf'"({"|".join(SERVICES)})",\s*"([a-z0-9_]+)"')
OURS = [*(ROOT / "infra/targets/sagemaker").glob("*.py"), ROOT / "infra/clouds/aws/ecr.py", ROOT / "flexserve/secret/aws.py"]
ENDPOINT = "arn:aws:sagemaker:us-east-2:123456789012:endpoint/"
MOST = 6144  # characters of a managed policy, blanks not counted (IAM quotas)


def calls() -> set[tuple[str, str]]:
    """Every call that the product's own code of this target names."""
    found = {pair for file in OURS for pair in CALLS.findall(file.read_text(encoding="utf-8"))}
    named = {(service, "".join(word.title() for word in operation.split("_"))) for service, operation in found}
    return {(service, operation) for service, operation in named if operation in wire.model(service).operation_names}


def action(service: str, operation: str) -> str:
    return authorise.action_of(Call(service, operation, {}, Caller("", ""), lambda _: pytest.fail()))


def test_every_call_of_the_products_own_code_is_on_the_page():
    found, all_of_them = calls(), actions(TABLE.right, beside=True)
    assert ("sagemaker", "DescribeEndpoint") in found and ("ecr", "BatchGetImage") in found and len(found) > 25
    assert {action(*call) for call in found} - all_of_them == set()


@pytest.mark.parametrize("who", WHO)
def test_the_policies_fit_and_name_what_they_allow(who):
    rows = TABLE.of(who)
    text = json.dumps(policy(rows), separators=(",", ":"))
    assert rows and len(text) <= MOST
    for row in rows:
        assert row.all and row.on and (row.on != ("*",) or not any(a.startswith(("iam:", "s3:")) for a in row.all))


def may(who: str, asked: str, resource: str) -> bool:
    document: dict[str, Any] = policy(TABLE.of(who))
    document["Statement"] = [s for s in document["Statement"] if "Condition" not in s]
    return allowed([document], asked, resource)


def test_what_is_anothers_is_not_touched():
    assert may("deploy", "sagemaker:DeleteEndpoint", f"{ENDPOINT}fs-1") and not may(
        "deploy", "sagemaker:DeleteEndpoint", f"{ENDPOINT}x"
    )
    assert may("look", "sagemaker:DescribeEndpoint", f"{ENDPOINT}fs-1") and not may(
        "look", "sagemaker:DeleteEndpoint", f"{ENDPOINT}fs-1"
    )
    assert may("use", "sagemaker:InvokeEndpoint", f"{ENDPOINT}fs-1") and not may(
        "use", "sagemaker:DescribeEndpoint", f"{ENDPOINT}fs-1"
    )
    assert not may("deploy", "iam:PutRolePolicy", "arn:aws:iam::123456789012:role/admin")


def test_roles_are_handed_on_to_these_services_alone():
    (passing,) = [s for s in policy(TABLE.of("deploy"))["Statement"] if "iam:PassRole" in s["Action"]]
    assert passing["Condition"] == {
        "StringEquals": {"iam:PassedToService": ["codebuild.amazonaws.com", "sagemaker.amazonaws.com", "scheduler.amazonaws.com"]}
    }


def test_what_is_spared_is_what_would_be_needed():
    assert [y.key for y in TABLE.yours] == ["execution_role", "repository", "bucket"]
    assert all(set(y.spares) <= actions(TABLE.of("deploy")) for y in TABLE.yours)
