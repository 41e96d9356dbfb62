"""`sagemaker-l4`: AWS's image as it is. Refused by what the image says, cleared after a crash loop, up, answered, down.

The engine, the program and the commands are real; containers are threads of this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal import run
from rehearsal.product import Ran
from rehearsal.run import Rehearsal
from tests.rehearsal.light_sagemaker import AWS_ACCOUNT, REPOSITORY, light
from tools.docs.sagemaker_rights import actions, load

pytestmark = pytest.mark.timeout(600)

STACK = "sagemaker-l4"


@dataclass
class Seen:
    """What was run, and what there was after it."""

    ran: dict[str, Ran] = field(default_factory=dict)
    bills: dict[str, list[str]] = field(default_factory=dict)
    answer: str = ""
    served: bool = False
    variant: dict[str, Any] = field(default_factory=dict)
    image: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    cleared: list[Any] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def seen(root: Path) -> Iterator[Seen]:
    """An image that says that it is not for the card; a server that ends again and again; one that serves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "stage", light)
        told = Seen()
        with Rehearsal(root, STACK, secret="") as rehearsal:
            stage: Any = rehearsal.stage
            key, right = (AWS_ACCOUNT, REPOSITORY), stage.images.held.copy()

            def step(name: str, *words: str) -> None:
                told.ran[name] = rehearsal.step(*words)
                told.bills[name] = [item.name for item in stage.aws.ledger.items() if item.deleted_at is None]

            stage.images.held = {key: []}
            stage.images.keep(*key, stage.deployment().image.tag, says=("CUDA_VERSION=13.0.2", "TORCH_CUDA_ARCH_LIST=9.0"))
            step("refused", "up", "--yes")
            stage.images.held = right
            stage.cluster.dies = True
            step("wait out", "up", "--yes", "--wait-out")
            told.cleared = [*stage.aws.endpoints(), *stage.aws.call("sagemaker", "ListModels")["Models"]]
            stage.cluster.dies = False
            step("up", "up", "--yes", "--timeout", "5m")
            told.answer, told.served = rehearsal.ask(), rehearsal.verdict.served
            (name,) = stage.aws.endpoints()
            config = stage.aws.call("sagemaker", "DescribeEndpointConfig", EndpointConfigName=_config(stage, name))
            (told.variant,) = config["ProductionVariants"]
            told.tags = {
                t["Key"]: t["Value"]
                for t in stage.aws.call("sagemaker", "ListTags", ResourceArn=config["EndpointConfigArn"])["Tags"]
            }
            told.image = stage.cluster.running()[-1].spec.image
            told.ran["preview"] = rehearsal.product.pulumi("preview", "-s", STACK, "--expect-no-changes")
            step("down", "down", "--yes", "--purge")
            told.asked = {a for entry in stage.aws.log.entries() for a in entry.actions}
        told.left = [item.name for item in rehearsal.verdict.left]
        yield told


def _config(stage: Any, name: str) -> str:
    return str(stage.aws.call("sagemaker", "DescribeEndpoint", EndpointName=name)["EndpointConfigName"])


def test_an_image_that_says_that_it_lacks_the_card_is_refused_before_anything_is_made(seen):
    ran = seen.ran["refused"]
    assert (ran.returncode, ran.document["refused"]["rule"], seen.bills["refused"]) == (3, "image-lacks-card", [])
    assert "its own config" in ran.document["refused"]["why"]


def test_wait_out_deletes_what_will_not_serve_and_ends_with_its_error(seen):
    """All but the log, which says why and ends by its retention."""
    ran = seen.ran["wait out"]
    error = ran.document["error"]
    assert (ran.returncode, error["kind"]) == (1, "out-of-memory") and "all of it is deleted" in error["way_out"]
    assert "everything of sagemaker-l4 is deleted" in ran.stderr and seen.cleared == []
    assert [name.rpartition("/")[0] for name in seen.bills["wait out"]] == ["/aws/sagemaker/Endpoints"]


def test_it_is_up_on_the_host_image_for_what_the_image_says_and_answers(seen):
    assert seen.ran["up"].returncode == 0 and seen.served and seen.answer
    assert seen.image.startswith(f"{AWS_ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/{REPOSITORY}@sha256:")  # nothing was built
    assert (seen.variant["InstanceType"], seen.variant["InferenceAmiVersion"]) == (
        "ml.g6.xlarge", "al2023-ami-sagemaker-inference-gpu-4-1",
    )  # fmt: skip
    assert seen.tags["flexserve-cuda"] == "13.0.2"


def test_once_it_is_up_the_program_wants_nothing_else(seen):
    assert seen.ran["preview"].returncode == 0, seen.ran["preview"].stdout + seen.ran["preview"].stderr


def test_aws_image_as_it_is_needs_no_right_that_the_page_gives_for_more(seen):
    """Whether there is a budget is asked too; one who may not see budgets has made none."""
    plain = [row for row in load().of("deploy") if not row.when]
    assert seen.asked - actions(plain, beside=True) == {"budgets:ViewBudget"}


def test_purge_leaves_nothing_and_takes_the_log_of_the_one_that_failed_too(seen):
    """That was another deployment: its log is found by its tags."""
    deleted = [thing.get("kind", thing["by"]) for thing in seen.ran["down"].document["deleted"]]
    assert deleted[:2] == ["engine", "endpoint"], seen.ran["down"].stderr
    logs = [thing["name"] for thing in seen.ran["down"].document["deleted"] if thing.get("kind") == "log-group"]
    assert len(logs) == 2 and seen.bills["wait out"][0] in logs
    assert seen.ran["down"].returncode == 0 and seen.left == seen.bills["down"] == []
