"""`LiveTarget` of ec2_spot against the local AWS, over HTTP and through boto3."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.clouds.aws.session import Session
from infra.places import Place
from infra.targets.ec2_spot import resolving
from infra.targets.ec2_spot.chances import types
from infra.targets.ec2_spot.live import Live, connect, resolve
from infra.targets.protocol import CanTellChances
from infra.targets.registry import live
from rehearsal.cloud.aws import LocalAwsCloud, Pace, troubles
from tests.contracts.live_target import LiveTargetContract, Scene
from tests.infra.ec2_scene import IMAGE, ZONE, Ec2Scene, Quiet
from verdict.errors import BadConfig, NoAccess


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One cloud for all: every scene has an id of its own. `FOLDERS`: where the machine that comes next keeps its files."""
    cloud = LocalAwsCloud(lambda spec: Quiet(spec, FOLDERS[-1]), pace=Pace(iam=0))
    with cloud:
        yield cloud


FOLDERS: list[Path] = []


@pytest.fixture
def cloud(running, tmp_path, monkeypatch):
    FOLDERS.append(tmp_path)
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield running
    running.disarm()
    running.state.denied.clear()


@pytest.fixture(scope="module")
def session(running) -> Session:
    """One for all: its clients are made at the first call, when `cloud` has set the environment."""
    return Session(running.region, sleep=running.clock.sleep)


@pytest.fixture
def scene(cloud, tmp_path, session) -> Ec2Scene:
    return Ec2Scene(cloud, tmp_path, session)


class TestEc2Spot(LiveTargetContract):
    @pytest.fixture
    def scene(self, cloud, tmp_path, session) -> Scene:
        return Ec2Scene(cloud, tmp_path, session)


def test_the_machine_is_told_as_it_was_really_given(scene):
    scene.create()
    machine = scene.live.find(scene.ref)
    assert machine is not None and (machine.name, machine.where, machine.cloud_state) == (scene.name, ZONE, "running")
    assert machine.provisioning == "spot"
    scene.call("ec2", "terminate_instances", InstanceIds=[scene.instance])
    scene.cloud.clock.advance(10)
    scene.run(spot=False)
    assert scene.live.find(scene.ref).provisioning == "on_demand"


def test_every_kind_of_thing_is_in_the_inventory_with_its_price(scene):
    scene.create()
    prices = {thing.kind: thing.price_per_hour for thing in scene.live.inventory(scene.ref)}
    assert prices == {
        "schedule": 0.0,
        "association": 0.0,
        "instance": 0.128,
        "spot-request": 0.0,
        "volume": pytest.approx(0.052055, abs=1e-5),  # 100 GB, 3,000 IOPS and 375 MiB/s above the free
        "security-group": 0.0,
        "subnet": 0.0,
        "route-table": 0.0,
        "internet-gateway": 0.0,
        "network": 0.0,
        "object": 0.0,
        "bucket": 0.0,
        "instance-profile": 0.0,
        "role": 0.0,
    }
    assert scene.live.inventory(scene.foreign) == []


def test_a_bucket_with_builds_is_kept_and_an_empty_one_is_not(scene):
    scene.create()
    (bucket,) = [t for t in scene.live.inventory(scene.ref) if t.kind == "bucket"]
    assert bucket.kept == ""
    scene.call("s3", "put_object", Bucket=scene.name, Key="builds/k/manifest.json", Body=b"{}")
    (bucket,) = [t for t in scene.live.inventory(scene.ref) if t.kind == "bucket"]
    assert "builds" in bucket.kept and bucket.price_per_hour is not None
    scene.live.delete(bucket)  # down --purge
    assert not [t for t in scene.live.inventory(scene.ref) if t.kind in ("bucket", "object")]


def test_builds_that_an_earlier_deployment_left_are_found_by_stack_and_owner(scene, g5g_spot):
    deployment = g5g_spot("owner=me")
    assert resolve("target.bucket", deployment, scene.session) == "own"
    scene.call("s3", "create_bucket", Bucket=scene.name)
    scene.call("s3", "put_object", Bucket=scene.name, Key="builds/k/manifest.json", Body=b"{}")
    assert resolve("target.bucket", deployment, scene.session) == "own"  # somebody's, for all that is known
    tags = [{"Key": k, "Value": v} for k, v in scene.tagged.items()]
    scene.call("s3", "put_bucket_tagging", Bucket=scene.name, Tagging={"TagSet": tags})
    assert resolve("target.bucket", deployment, scene.session) == scene.name
    assert resolve("target.bucket", g5g_spot("owner=you"), scene.session) == "own"
    later = Live(scene.session, scene.name)
    found = [t for t in later.inventory(scene.foreign) if t.kind == "bucket"]
    assert [(t.name, bool(t.kept)) for t in found] == [(scene.name, True)]


def test_somebody_elses_bucket_is_no_part_of_us(scene):
    scene.call("s3", "create_bucket", Bucket=f"theirs-{scene.ref.id}")
    scene.call("s3", "put_object", Bucket=f"theirs-{scene.ref.id}", Key="builds/k/manifest.json", Body=b"{}")
    scene.call("s3", "put_object", Bucket=f"theirs-{scene.ref.id}", Key=f"{scene.ref.id}/script", Body=b"x")
    found = Live(scene.session, f"theirs-{scene.ref.id}").inventory(scene.ref)
    assert [(t.kind, t.name) for t in found] == [("object", f"theirs-{scene.ref.id}/{scene.ref.id}/script")]


def test_a_volume_that_outlived_its_machine_is_found(scene):
    tags = scene.tags("volume")
    scene.call("ec2", "create_volume", AvailabilityZone="us-east-1b", Size=100, VolumeType="gp3", TagSpecifications=tags)
    assert [(t.kind, t.where) for t in scene.live.inventory(scene.ref)] == [("volume", "us-east-1b")]


def test_the_log_comes_in_pieces_that_fit_an_answer(scene):
    scene.create()
    whole = "".join(f"line {n}: München\n" for n in range(3000))
    scene.speak(whole)
    text, at = "", 0
    for _ in range(10):
        piece, following = scene.live.log(scene.ref, since=at)
        text, at = text + piece, following
        if not piece:
            break
    assert text == whole and at == len(whole.encode())


def test_before_the_agent_is_up_there_is_the_console(scene):
    scene.run()  # without a profile: no agent speaks for it
    machine = scene.cloud.machines()[scene.instance]
    machine.console = "booting\n"
    text, at = scene.live.log(scene.ref)
    assert "booting" in text and scene.live.log(scene.ref, since=at) == ("", at)
    assert scene.live.log(scene.ref, since=5) == ("", 5)
    assert scene.live.boot(scene.ref) is None


def test_a_transient_503_is_not_seen(scene):
    scene.cloud.arm(troubles.unavailable("ec2.DescribeInstances", times=2))
    assert scene.live.find(scene.ref) is None


def test_without_permission_the_answer_is_no_access_not_nothing(scene):
    scene.cloud.deny("ec2:DescribeInstances")
    with pytest.raises(NoAccess):
        scene.live.find(scene.ref)


def test_without_credentials_the_way_out_names_the_chain(scene, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoAccess) as error:
        Live(Session("us-east-1")).find(scene.ref)
    assert "aws configure" in error.value.way_out


def test_wrong_credentials_are_no_access(scene, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    with pytest.raises(NoAccess):
        Live(Session("us-east-1")).find(scene.ref)


def test_a_delete_that_is_refused_is_not_taken_for_done(scene):
    scene.create()
    scene.cloud.arm(troubles.delete_fails())
    (instance,) = [t for t in scene.live.inventory(scene.ref) if t.kind == "instance"]
    with pytest.raises(Exception, match="AWS refused"):
        scene.live.delete(instance)
    assert scene.live.find(scene.ref) is not None


def test_the_host_image_is_what_the_parameter_names_today(scene, g5g_spot):
    first = resolve("target.host_image", g5g_spot(), scene.session)
    assert first == IMAGE
    scene.cloud.publish_images()
    assert resolve("target.host_image", g5g_spot(), scene.session) != first
    assert resolve("target.host_image", g5g_spot(f"target.host_image={IMAGE}"), scene.session) == IMAGE


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("target.host_image=/aws/service/none", "has no parameter"),
        ("target.host_image=ami-0123456789abcdef0", "has no image"),
        ("target.disk_gb=36", "the disk 36"),
    ],
)
def test_a_host_image_that_will_not_do_is_refused(scene, g5g_spot, setting, says):
    with pytest.raises(BadConfig, match=says):
        resolve("target.host_image", g5g_spot(setting), scene.session)


GOOD = {
    "ImageId": IMAGE,
    "Name": "Deep Learning ARM64 AMI OSS Nvidia Driver GPU PyTorch 2.12 (Ubuntu 24.04) 20260724",
    "Architecture": "arm64",
    "ImageOwnerAlias": "amazon",
    "State": "available",
    "RootDeviceName": "/dev/sda1",
    "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 75}}],
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"Architecture": "x86_64"}, "is for x86_64"),
        ({"Name": "Deep Learning ARM64 AMI Graviton"}, "no NVIDIA driver"),
        ({"Name": "our own", "ImageOwnerAlias": "self"}, ""),
        ({"State": "deregistered"}, "deregistered"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 101}}]}, "101 GB"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Ebs": {"VolumeSize": 900}}]}, ""),
    ],
)
def test_what_is_looked_at_in_an_image(g5g_spot, changes, says):
    def check():
        resolving.check(g5g_spot().target, {**GOOD, **changes}, ["arm64"])

    if says:
        with pytest.raises(BadConfig, match=says):
            check()
    else:
        check()


def test_connect_reads_the_stack_file_and_the_outputs_over_it(cloud):
    assert connect({"region": "us-west-2", "bucket": "own"})._bucket == ""
    assert connect({"region": "us-west-2", "bucket": "fs-1"})._bucket == "fs-1"
    assert isinstance(live("ec2_spot", {"region": "us-east-1"}), Live)
    with pytest.raises(BadConfig, match="region: missing"):
        connect({})


def test_why_a_machine_has_gone_is_told_for_an_hour(scene):
    assert scene.live.ended(scene.ref) == ""
    scene.create()
    scene.cloud.reclaim(scene.instance)
    scene.cloud.clock.advance(150)
    assert scene.live.find(scene.ref) is None and scene.live.ended(scene.ref) == "EC2 took the spot machine back"
    assert scene.live.last_failure(scene.ref) is None
    scene.cloud.clock.advance(3700)
    assert scene.live.ended(scene.ref) == ""


def test_a_machine_that_somebody_terminated_was_not_taken_back(scene):
    scene.create()
    scene.call("ec2", "terminate_instances", InstanceIds=[scene.instance])
    scene.cloud.clock.advance(10)
    assert scene.live.ended(scene.ref) == "somebody terminated it"


PLACES = tuple(
    Place(f"{zone}{tail}", zone, size, way)
    for size, way, tail in (("g5g.xlarge", "spot", ""), ("g5g.xlarge", "on_demand", "/on-demand"))
    for zone in ("us-east-1a", "us-east-1b")
)


def test_the_placement_score_is_told_by_zone_and_for_spot_only(scene):
    scene.cloud.arm(troubles.no_capacity("us-east-1a"))
    scores = scene.live.chances(PLACES)
    assert isinstance(scene.live, CanTellChances)
    assert set(scores) == {"us-east-1a", "us-east-1b"} and scores["us-east-1b"] > scores["us-east-1a"]


def test_ec2_is_asked_about_three_types_at_least(scene):
    """With one or two the score is always low (EC2 API)."""
    assert types(["g5g.xlarge"])[0] == "g5g.xlarge" and len(types(["g5g.xlarge"])) == 3
    assert types(["g5g.metal", "g5g.xlarge", "g5g.8xlarge", "g5g.2xlarge"])[3] == "g5g.2xlarge"


def test_a_score_is_asked_for_only_where_there_is_a_choice_and_the_stack_file_lets_it(scene):
    scene.cloud.state.denied.add("ec2:GetSpotPlacementScores")
    assert scene.live.chances(PLACES[:1]) == {} and scene.live.chances(PLACES[2:]) == {}
    assert connect({"region": "us-east-1", "placement_scores": False}).chances(PLACES) == {}
    with pytest.raises(NoAccess):
        scene.live.chances(PLACES)
