"""What an operator does after an `up` of an endpoint that failed: with `flexserve`, and with plain `pulumi`.

The engine, the program and the commands are real; containers and builds are threads of this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infra.clouds.aws import policies
from infra.targets.sagemaker import rights
from rehearsal import run
from rehearsal.product import Ran
from rehearsal.run import Rehearsal
from tests.rehearsal.light_sagemaker import AWS_ACCOUNT, REPOSITORY, light
from tools.docs.sagemaker_rights import actions, load, own_role

pytestmark = pytest.mark.timeout(600)

STACK = "sagemaker-t4"
OWN = {"execution_role": "arn:aws:iam::123456789012:role/mine", "repository": "mine", "bucket": "mine-files"}
WORDS = "flexserve: torch holds no code for compute capability 7.5"


@dataclass
class Seen:
    """What was run, and the endpoint after it."""

    ran: dict[str, Ran] = field(default_factory=dict)
    endpoint: dict[str, dict[str, Any]] = field(default_factory=dict)
    engine: str = ""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def seen(root: Path) -> Iterator[Seen]:
    """A build that fails; an endpoint that fails for want of a machine; plain `pulumi up` over it; and to zero.

    Role, repository and bucket are the operator's own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "stage", light)
        told = Seen()
        sets = [f"target.{key}={value}" for key, value in OWN.items()]
        with Rehearsal(root, STACK, secret="", sets=sets) as rehearsal:
            stage: Any = rehearsal.stage
            own(stage)
            stage.builder.fails = WORDS
            told.ran["build"] = rehearsal.step("up", "--yes", "--no-wait")
            (log,) = rehearsal.folder.rglob(f"{STACK}-*-up.log")
            told.engine = log.read_text()
            stage.builder.fails = ""
            name = failed(stage)
            told.endpoint["failed"] = stage.aws.call("sagemaker", "DescribeEndpoint", EndpointName=name)
            told.ran["again"] = rehearsal.product.pulumi("up", "--yes", "-s", STACK)
            told.endpoint["again"] = stage.aws.call("sagemaker", "DescribeEndpoint", EndpointName=name)
            told.ran["down"] = rehearsal.step("down", "--yes", "--purge")
            told.endpoints = stage.aws.endpoints()
            told.asked = {a for entry in stage.aws.log.entries() for a in entry.actions}
        told.left = [item.name for item in rehearsal.verdict.left]
        yield told


def own(stage: Any) -> None:
    """What the stack file names, made beforehand: the role as the page of rights has it."""
    call = stage.aws.call
    repository = rights.repository_arn("*", "*", "mine")
    call("iam", "CreateRole", RoleName="mine", AssumeRolePolicyDocument=policies.trust(rights.SAGEMAKER))
    call("iam", "PutRolePolicy", RoleName="mine", PolicyName="own", PolicyDocument=own_role(repository))
    call("ecr", "CreateRepository", repositoryName="mine")
    call("s3", "CreateBucket", Bucket="mine-files", CreateBucketConfiguration={"LocationConstraint": stage.aws.region})


def failed(stage: Any) -> str:
    """An endpoint of the stack's name that never got a machine, as an `up` leaves it; its name. One engine run less."""
    call = stage.aws.call
    (name,) = call("codebuild", "ListProjects")["projects"]
    role = OWN["execution_role"]
    image = f"{AWS_ACCOUNT}.dkr.ecr.{stage.aws.region}.amazonaws.com/{REPOSITORY}:{stage.deployment().image.tag}"
    call("sagemaker", "CreateModel", ModelName=f"{name}-m", PrimaryContainer={"Image": image}, ExecutionRoleArn=role)
    variant = {"VariantName": "main", "ModelName": f"{name}-m", "InstanceType": "ml.g4dn.xlarge", "InitialInstanceCount": 1}
    call("sagemaker", "CreateEndpointConfig", EndpointConfigName=f"{name}-c", ProductionVariants=[variant])
    stage.aws.take_endpoint_type("*")
    call("sagemaker", "CreateEndpoint", EndpointName=name, EndpointConfigName=f"{name}-c")
    stage.aws.clock.advance(1801)
    stage.aws.state.sagemaker.without.clear()
    return str(name)


def test_a_failed_build_is_an_error_of_its_own_with_the_logs_last_lines(seen):
    ran = seen.ran["build"]
    error = ran.document["error"]
    assert (ran.returncode, error["exit_code"], error["kind"]) == (1, 1, "build-failed")
    assert "image was not built" in error["what"] and WORDS in error["why"] and WORDS in error["log_tail"]
    assert error["way_out"].startswith("`flexserve up` builds again")


def test_plain_pulumi_says_the_same(seen):
    """The log of the engine's run is what its command, `pulumi up --yes --skip-preview`, wrote."""
    assert all(words in seen.engine for words in ("image was not built", WORDS, "way out: ", "    1 errored")), seen.engine


def test_pulumi_up_says_that_it_makes_it_anew_and_does(seen):
    ran, before, after = seen.ran["again"], seen.endpoint["failed"], seen.endpoint["again"]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    preview, _, update = (ran.stdout + ran.stderr).partition("Updating (")
    assert "never served and never will: Unable to provision" in preview and "made anew" in update
    assert (before["EndpointStatus"], after["EndpointStatus"]) == ("Failed", "InService")
    assert after["CreationTime"] > before["CreationTime"]


def test_nothing_is_left_but_what_is_the_operators(seen):
    assert seen.ran["down"].returncode == 0 and seen.endpoints == {} and set(seen.left) <= {"mine", "mine-files"}


def test_what_is_the_operators_own_spares_what_the_page_of_rights_says(seen):
    table = load()
    spared = {action for yours in table.yours for action in yours.spares}
    needed = {row for row in table.of("deploy") if row.when in ("", "image_source: patched")}
    assert seen.asked & spared == set() and seen.asked - actions(needed, beside=True) == {"budgets:ViewBudget"}
