"""The faults of a spot stack against the local cloud alone: each can be armed, and each changes what it says. Whole rehearsals: \
`python -m benchmarks.faults --stack g5g-spot`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.faults import FAULTS, for_target
from rehearsal.run import Rehearsal
from rehearsal.targets.ec2_spot import BUCKET, Ec2SpotStage
from verdict.errors import BadConfig


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Ec2SpotStage]:
    """A stage with a cloud and nothing around it, not entered."""
    found = Ec2SpotStage(tmp_path)
    with LocalAwsCloud() as aws:
        found.aws = found.cloud = aws
        found._open_bucket()
        found.keep_build()
        aws.put_secret("hf-token", "hf_x")
        yield found


@pytest.mark.parametrize("name", [fault.name for fault in for_target("ec2_spot")])
def test_a_fault_can_be_armed(stage, name):
    FAULTS[name].apply(stage)


def manifest_and_archive(stage: Ec2SpotStage) -> tuple[dict[str, object], bytes]:
    stored = {key.rpartition("/")[2]: data for key, data in stage.aws.stored(BUCKET).items()}
    manifest = json.loads(stored["manifest.json"])
    return manifest, stored[manifest["archive"]]


def test_a_damaged_build_has_its_size_and_another_hash(stage):
    before, whole = manifest_and_archive(stage)
    assert hashlib.sha256(whole).hexdigest() == before["sha256"]
    FAULTS["build-damaged"].apply(stage)
    manifest, archive = manifest_and_archive(stage)
    assert manifest == before and len(archive) == manifest["size"]
    assert hashlib.sha256(archive).hexdigest() != manifest["sha256"]


def test_a_missing_build_and_a_missing_secret_are_missing(stage):
    FAULTS["build-missing"].apply(stage)
    FAULTS["aws-secret-missing"].apply(stage)
    assert stage.build() == [] and stage.aws.secret_names() == ()


@pytest.mark.parametrize(("name", "processor"), [("wrong-image", "x86_64"), ("image-without-driver", "arm64")])
def test_the_parameter_names_another_image(stage, name, processor):
    FAULTS[name].apply(stage)
    named = stage.aws.call("ssm", "GetParameter", Name=stage.config().host_image)["Parameter"]["Value"]
    (image,) = stage.aws.call("ec2", "DescribeImages", ImageIds=[named])["Images"]
    assert image["Architecture"] == processor and (processor == "x86_64" or "nvidia driver" not in image["Name"].lower())


def test_no_zone_offers_the_type(stage):
    FAULTS["zone-without-type"].apply(stage)
    filters = [{"Name": "instance-type", "Values": ["g5g.xlarge"]}]
    offered = stage.aws.call("ec2", "DescribeInstanceTypeOfferings", LocationType="availability-zone", Filters=filters)
    zones = {offer["Location"] for offer in offered["InstanceTypeOfferings"]}
    assert not zones & set(stage.config().zones)


def test_a_refusal_comes_from_the_cloud(stage):
    FAULTS["spot-no-capacity"].apply(stage)
    asked = {
        "ImageId": "ami-07a66fa2acbcfea88",
        "InstanceType": "g5g.xlarge",
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceMarketOptions": {"MarketType": "spot"},
    }
    with pytest.raises(AwsError, match="InsufficientInstanceCapacity"):
        stage.aws.call("ec2", "RunInstances", **asked)


def test_what_happens_on_the_way_to_the_server_happens_once_and_before_it(stage):
    seen: list[str] = []
    stage.on_reach.append(lambda _stage, name: seen.append(name))
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            stage._connect("i-1", 8000)
    assert seen == ["i-1"]


def test_a_fault_of_another_target_is_refused(root: Path):
    with pytest.raises(BadConfig, match="spot-quota is a fault of ec2_spot, tpu-v6e is gce_flex"):
        Rehearsal(root, "tpu-v6e", faults=[FAULTS["spot-quota"]])
    assert Rehearsal(root, "g5g-spot", faults=[FAULTS["garbage"]]).kind == "ec2_spot"
