"""What an operator names of his own: looked at before anything is made; and what a stack file's words become in AWS's."""

from __future__ import annotations

import json

import pytest

from catalog.loader import Catalog
from flexserve.lifecycle.classify import classify
from flexserve.lifecycle.parts import EngineFailed
from infra import program
from infra.clouds.aws import policies
from infra.settle import settle
from infra.targets.protocol import DeploymentRef
from infra.targets.sagemaker import building, yours
from infra.targets.sagemaker import resources as r
from infra.targets.sagemaker.config import Config
from infra.targets.sagemaker.live import Live, connect
from infra.targets.sagemaker.rights import CODEBUILD, SAGEMAKER
from tests.conftest import ROOT
from tests.infra.test_component_sagemaker import TODAY
from tests.infra.test_live_sagemaker import project, running, scene
from tests.infra.test_settle import answers, at
from verdict.errors import BadConfig, NoAccess

__all__ = ("running", "scene")

THERE, ELSEWHERE = "yours-in-ohio", "yours-in-ireland"
OTHER = "arn:aws:iam::999999999999:role/mine"


@pytest.fixture(scope="module")
def there(running):
    """A role that SageMaker may take, one that CodeBuild may, a repository and a bucket."""
    cloud, session = running
    for name, service in (("fits", SAGEMAKER), ("other", CODEBUILD)):
        session.call("iam", "create_role", RoleName=name, Path="/team/", AssumeRolePolicyDocument=policies.trust(service))
    session.call("ecr", "create_repository", repositoryName=THERE)
    for name in (THERE, ELSEWHERE):
        session.call("s3", "create_bucket", Bucket=name, CreateBucketConfiguration={"LocationConstraint": cloud.region})
    cloud.state.moto.backend("s3").buckets[ELSEWHERE].region_name = "eu-west-1"
    return session, f"arn:aws:iam::{cloud.account}:role/team/"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, ""),
        ({"execution_role": "fits"}, ""),
        ({"execution_role": "other"}, "execution_role: the role does not trust sagemaker"),
        ({"execution_role": "none"}, "execution_role: there is no role"),
        ({"execution_role": OTHER}, "execution_role: is of account 999999999999, and you are in "),
        ({"repository": THERE, "bucket": THERE}, ""),
        ({"repository": "none"}, "repository: us-east-2 has no repository none"),
        ({"bucket": "none"}, "bucket: us-east-2 has no bucket none"),
        ({"bucket": ELSEWHERE}, "bucket: yours-in-ireland is in eu-west-1, the build in us-east-2"),
        ({"repository": "none", "bucket": "none", "image_source": "aws"}, ""),
    ],
)
def test_what_is_named_has_to_be_there_and_to_fit(there, settings, says):
    session, roles = there
    role = settings.get("execution_role", "own")
    named = {"image_source": "patched", **settings, "execution_role": role if role in ("own", OTHER) else roles + role}
    if not says:
        return yours.check(Config(**named), session, pytest.fail)
    with pytest.raises(BadConfig, match=f"flexserve:target.{says}") as error:
        yours.check(Config(**named), session, pytest.fail)
    printed = EngineFailed("pulumi up failed", diagnostics=(str(error.value),))
    again = classify(printed, Live(session), None)
    assert (str(again), again.exit_code) == (str(error.value), 2)  # what the program prints, `up` ends with
    return None


def test_a_repository_that_was_taken_over_and_is_gone_is_not_asked_for_in_the_stack_file(there):
    with pytest.raises(BadConfig) as error:
        yours.check(Config(image_source="patched", repository="fs-0123456789"), there[0], pytest.fail)
    assert "flexserve down" in error.value.way_out


def test_what_may_not_be_looked_at_is_left_to_whoever_uses_it(there, running):
    session, roles = there
    denied = running[0].state.denied
    words: list[str] = []
    denied |= {"iam:GetRole", "ecr:DescribeRepositories", "s3:ListBucket"}
    try:
        named = {"execution_role": f"{roles}none", "repository": "none", "bucket": "none"}
        yours.check(Config(image_source="patched", **named), session, words.append)
    finally:
        denied.clear()
    assert [word.split()[0] for word in words] == [f"flexserve:target.{key}" for key in named] and "iam:GetRole" in words[0]


def test_a_role_of_another_path_is_named_as_it_is(there):
    session, roles = there
    with pytest.raises(BadConfig, match=r"execution_role: that role is .*:role/team/fits"):
        yours.check(Config(execution_role=f"{roles.removesuffix('team/')}fits"), session, pytest.fail)


def test_the_program_looks_before_it_registers_anything(monkeypatch, sagemaker_t4):
    """A refusal leaves no trace in the state."""
    asked = []
    monkeypatch.setattr(yours, "check", lambda c, session, warn: asked.append((c.bucket, session.region)))
    program.check(settled(sagemaker_t4, "target.bucket=mine"))
    story = (ROOT / "infra" / "__main__.py").read_text(encoding="utf-8")
    assert asked == [("mine", "us-east-2")] and 0 < story.index("program.check(settled)") < story.index("pulumi.Stash(")


def test_with_another_accounts_credentials_nothing_is_said_to_be_gone(running):
    """Every question is refused, not the first alone; without a known account all of them are answered."""
    cloud, _ = running
    ref = DeploymentRef("sagemaker-t4", "0123456789")
    live = connect({"region": cloud.region, "account": "999999999999"})
    for ask in (live.find, live.inventory, live.watch, live.held, live.find):
        with pytest.raises(NoAccess, match=f"is in account 999999999999, and these credentials are of {cloud.account}"):
            ask(ref)
    for account in (cloud.account, ""):
        assert connect({"region": cloud.region, "account": account}).find(ref) is None


TAKES = {"Effect": "Allow", "Action": "sts:AssumeRole"}


@pytest.mark.parametrize(
    ("principal", "trusted"),
    [
        ({"Service": SAGEMAKER}, True),
        ({"Service": [CODEBUILD, SAGEMAKER]}, True),
        ({"AWS": "*"}, True),
        ("*", True),
        ({"Service": CODEBUILD}, False),
        ({"AWS": "arn:aws:iam::123456789012:root"}, False),
        ({"Federated": "*"}, False),
        (None, False),
    ],
)
def test_whom_a_role_trusts(principal, trusted):
    for statements in ([{**TAKES, "Principal": principal}], {**TAKES, "Principal": principal}):
        assert yours.trusts({"Statement": statements}) is trusted
    assert not yours.trusts({"Statement": [{**TAKES, "Effect": "Deny", "Principal": principal}]})
    assert not yours.trusts({})


@pytest.mark.parametrize(
    ("usd", "amount"), [("100", "100"), ("0.5", "0.50"), ("1234567", "1234567"), ("123456.78", "123456.78"), ("1e9", "1000000000")]
)
def test_a_budgets_amount_is_a_plain_number(sagemaker_t4, usd, amount):
    """Budgets takes digits and a point: `1.23457e+06` is refused."""
    s = settled(sagemaker_t4, f"target.alarm={{usd: {usd}, mail: ops@acme.test}}")
    assert r.budget(s.plan, s.kept)["limit_amount"] == amount


@pytest.mark.parametrize("name", ["chat", ["chat", "gemma"], "", None])
def test_the_way_in_knows_the_model_by_the_name_that_the_server_has(sagemaker_t4, name):
    sets = [f"serving.extra_args={{served-model-name: {json.dumps(name)}}}"] if name else []
    s = settled(sagemaker_t4, *sets)
    assert r.served(s.plan) == ("chat" if name else s.plan.model.name)


def settled(stack, *sets):
    return settle(stack(*sets), Catalog.load(), None, at(), answers(TODAY))


def test_a_build_that_another_one_was_faster_than_is_no_failure(scene):
    """Two stacks share a repository and build the same image: the second push of the tag is refused."""
    wanted, said = project(scene), []
    scene.builder.fails = "tag invalid: The image tag already exists"

    def say(text: str) -> None:
        said.append(text)
        if len(scene.builder.built) == 1 and not scene.images.held.get((scene.cloud.account, scene.names.base)):
            scene.images.keep(scene.cloud.account, wanted.repository, wanted.tag)

    digest = building.ensure(scene.session, wanted, say)
    assert digest == scene.images.held[scene.cloud.account, scene.names.base][0].digest
    assert len(scene.builder.built) == 1 and "another build" in said[-1]
