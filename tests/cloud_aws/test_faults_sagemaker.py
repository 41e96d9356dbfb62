"""The faults of an endpoint against the local cloud alone: each can be armed, and each changes what it says. Whole rehearsals: \
`python -m benchmarks.faults --stack sagemaker-l4`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.targets.sagemaker.rules import cuda_driver_mismatch
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.faults import FAULTS, for_target
from rehearsal.faults.sagemaker import BARE_ROLE, OLD_HOST
from rehearsal.sagemaker.base import Base
from rehearsal.targets.sagemaker import SageMakerStage


class Seeded:
    """A registry that remembers what it was given as AWS's image."""

    def __init__(self) -> None:
        self.bases: list[Base | None] = []

    def seed(self, tag: str, base: Base | None = None) -> str:
        assert "sagemaker" in tag
        self.bases.append(base)
        return "sha256:" + "0" * 64


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[SageMakerStage]:
    """A stage with a cloud and nothing around it, not entered."""
    found: Any = SageMakerStage(tmp_path)
    with LocalAwsCloud(region="us-east-2") as aws:
        found.aws = found.cloud = aws
        found.registry = Seeded()
        aws.put_secret("hf-token", "hf_x")
        yield found


@pytest.mark.parametrize("name", [fault.name for fault in for_target("sagemaker")])
def test_a_fault_can_be_armed(stage, name):
    FAULTS[name].apply(stage)


def test_the_server_is_told_how_to_die(stage):
    for fault, switch in (("crash-loop-start", "crash-loop"), ("out-of-memory", "out-of-memory")):
        FAULTS[fault].apply(stage)
        assert stage.behaviour.faults.vllm == switch


def test_the_base_loses_the_cards_kernels(stage):
    FAULTS["build-fails"].apply(stage)
    (base,) = stage.registry.bases
    assert "sm_75" not in base.arches and "sm_80" in base.arches


def test_the_bare_role_is_there_and_is_the_one_that_the_settings_name(stage):
    FAULTS["image-not-pullable"].apply(stage)
    arn = stage.aws.call("iam", "GetRole", RoleName=BARE_ROLE)["Role"]["Arn"]
    assert FAULTS["image-not-pullable"].sets == (f"target.execution_role={arn}",)


def test_a_busy_endpoint_is_refused_once(stage):
    FAULTS["endpoint-busy"].apply(stage)
    for text in ("Cannot update in-progress endpoint", "Could not find endpoint"):
        with pytest.raises(AwsError, match=text):
            stage.aws.call("sagemaker", "DeleteEndpoint", EndpointName="fs-x")


def test_the_old_host_image_is_one_and_its_rule_is_the_products(stage):
    assert OLD_HOST in [row.name for row in stage.aws.state.inventory.host_images]
    assert FAULTS["wrong-host-image"].allows == (cuda_driver_mismatch.__name__.replace("_", "-"),)


def test_the_local_clouds_host_images_are_the_catalogs(stage):
    from catalog.loader import Catalog

    ours = {row.name: (row.driver, row.cuda) for row in stage.aws.state.inventory.host_images if row.driver and row.name}
    theirs = {row.family: (row.driver, row.cuda) for row in Catalog.load().host_images if row.project == "sagemaker" and row.driver}
    assert ours == theirs
