"""`secret put` and `check` against the local AWS: the value goes in once and comes out nowhere."""

from __future__ import annotations

import io
import sys

import pytest

from catalog.loader import Catalog
from flexserve.commands import down
from flexserve.project import Project
from flexserve.secret.aws import AwsStore
from infra.clouds.aws import policies
from infra.clouds.aws.session import NotThere, Session
from infra.plan import make_plan
from rehearsal.cloud.aws import LocalAwsCloud, Pace
from tests.cli.conftest import document
from tools.docs.sagemaker_rights import actions, load
from verdict.errors import BadConfig, FlexserveError

SENTINEL = "hf_SENTINEL0123456789"
STACK = ("-s", "g5g-spot", "--allow", "placeholder")


@pytest.fixture(scope="module")
def running():
    with LocalAwsCloud(None, pace=Pace(iam=0)) as cloud:
        yield cloud


@pytest.fixture
def cloud(running, project, root, monkeypatch):
    stack = "Pulumi.g5g-spot.yaml"
    (project / "stacks" / stack).write_text((root / "stacks" / stack).read_text(encoding="utf-8"), encoding="utf-8")
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PULUMI_HOME", str(project / "nobody"))
    yield running
    for name in running.secret_names():
        running.drop_secret(name)
    running.state.denied.clear()


@pytest.fixture
def piped(monkeypatch):
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def value_of(cloud) -> str:
    return str(cloud.call("secretsmanager", "GetSecretValue", SecretId="hf-token")["SecretString"])


def test_put_makes_the_secret_and_adds_versions(cloud, flexserve, piped):
    piped(f"  {SENTINEL}\n")
    code, out, err = flexserve("secret", "put", "hf-token", *STACK, "--json")
    first = document(out)["version"]
    assert code == 0 and value_of(cloud) == SENTINEL and document(out)["project"] == "us-east-1", err
    piped(f"{SENTINEL}2\n")
    code, again, _ = flexserve("secret", "put", "hf-token", *STACK, "--json")
    assert code == 0 and document(again)["version"] != first and value_of(cloud) == f"{SENTINEL}2"
    assert SENTINEL not in out + again + err
    assert SENTINEL not in str([r for r in cloud.requests() if "secretsmanager" not in str(r)])


def test_check(cloud, flexserve):
    code, out, _ = flexserve("secret", "check", "hf-token", *STACK, "--json")
    assert code == 1 and document(out)["exists"] is False
    cloud.put_secret("hf-token", SENTINEL)
    before = len(cloud.requests())
    code, out, _ = flexserve("secret", "check", "hf-token", *STACK, "--json")
    checked = document(out)
    assert code == 0 and checked["exists"] and checked["enabled"] and checked["readable"] is None and checked["version"]
    assert SENTINEL not in out and "GetSecretValue" not in str(cloud.requests()[before:])


def test_check_asks_iam_what_the_role_may(cloud, monkeypatch):
    """And for no right that the page does not give to whoever runs it."""
    monkeypatch.setenv("AWS_REGION", cloud.region)
    cloud.put_secret("hf-token", SENTINEL)
    arn = cloud.call("secretsmanager", "DescribeSecret", SecretId="hf-token")["ARN"]
    before = len(cloud.log.entries())
    for name, on in (("fs-reads", arn), ("fs-other", f"{arn}x")):
        cloud.call("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=policies.trust("sagemaker.amazonaws.com"))
        text = policies.document(policies.allow("secretsmanager:GetSecretValue", on))
        cloud.call("iam", "PutRolePolicy", RoleName=name, PolicyName="own", PolicyDocument=text)
    store = AwsStore(Session(cloud.region))
    checked = [store.check("hf-token", name, granted=True) for name in ("fs-reads", "fs-other", "fs-nobody")]
    assert [found.readable for found in checked] == [True, False, None], checked
    store.put("hf-token", SENTINEL)
    asked = {action for entry in cloud.log.entries()[before:] for action in entry.actions}
    assert asked <= actions(load().of("secret")) and "iam:SimulatePrincipalPolicy" in asked


@pytest.mark.parametrize("command", ["put", "check"])
def test_without_a_right_it_is_no_access(cloud, flexserve, piped, command):
    cloud.deny("secretsmanager:DescribeSecret")
    piped(SENTINEL)
    code, out, err = flexserve("secret", command, "hf-token", *STACK)
    assert code == 5 and "permission" in err and SENTINEL not in out + err


def test_a_name_that_secrets_manager_does_not_find_is_refused():
    with pytest.raises(BadConfig, match="hyphen"):
        AwsStore(Session("us-east-1")).put("my-secret", "x")


def test_purge_says_what_becomes_of_the_secret(monkeypatch, root, sagemaker_t4, tpu_v6e):
    """It is no part of the deployment: it is named with its price, and how to delete it."""
    assert down.secret(Project(root), "sagemaker-t4") == ""  # it names none
    assert down.secret(Project(root), "nosuch") == ""
    for made, says in (
        (
            sagemaker_t4("secret.name=hf-token"),
            "$0.40 a month until `aws secretsmanager delete-secret --secret-id hf-token --region us-east-2`",
        ),
        (tpu_v6e(), "at a price that is not known until `gcloud secrets delete hf-token --project acme-1`"),
    ):
        plan = make_plan(made, Catalog.load())
        monkeypatch.setattr("flexserve.commands.plan.load", lambda *_, plan=plan: plan)
        assert down.secret(Project(root), "s").endswith(says) and "yours" in down.secret(Project(root), "s")


class Told:
    """A session that answers what it is told."""

    region = "us-east-1"

    def __init__(self, **answers):
        self.answers = answers

    def call(self, service, operation, **_):
        answer = self.answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return answer


SECRET = {
    "ARN": "arn:aws:secretsmanager:us-east-1:1:secret:hf-token-AbCdEf",
    "VersionIdsToStages": {"v2": ["AWSCURRENT"], "v1": []},
}
ROLE = {"Role": {"Arn": "arn:aws:iam::1:role/fs-1"}}


@pytest.mark.parametrize(
    ("answers", "readable"),
    [
        ({"simulate_principal_policy": {"EvaluationResults": [{"EvalDecision": "allowed"}]}}, True),
        ({"simulate_principal_policy": {"EvaluationResults": [{"EvalDecision": "implicitDeny"}]}}, False),
        ({"simulate_principal_policy": {}}, False),
        ({"simulate_principal_policy": FlexserveError("no", why="not authorized")}, None),
        ({"get_role": NotThere("gone")}, None),
    ],
)
def test_what_iam_says_of_the_machines_role(answers, readable):
    told = Told(**{"describe_secret": SECRET, "get_role": ROLE, **answers})
    checked = AwsStore(told).check("hf-token", "fs-1", granted=True)
    assert checked.readable is readable and checked.version == "v2" and checked.why


@pytest.mark.parametrize(("secret", "enabled"), [({**SECRET, "DeletedDate": 1}, False), ({"ARN": "a"}, False), (SECRET, True)])
def test_a_secret_that_is_being_deleted_or_has_no_version_is_not_enabled(secret, enabled):
    assert AwsStore(Told(describe_secret=secret)).check("hf-token", "", granted=True).enabled is enabled
    if "DeletedDate" in secret:
        with pytest.raises(FlexserveError, match="being deleted"):
            AwsStore(Told(describe_secret=secret)).put("hf-token", "x")
