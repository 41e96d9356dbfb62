"""`LiveTarget` of ec2_spot against the local AWS, over HTTP and through boto3."""

from __future__ import annotations

import secrets
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.clouds.aws.session import Session
from infra.targets.ec2_spot import network, resolving, rights
from infra.targets.ec2_spot.live import Live, connect, resolve
from infra.targets.protocol import DeploymentRef
from infra.targets.registry import live
from rehearsal.cloud.aws import LocalAwsCloud, Pace, troubles
from rehearsal.cloud.aws.ec2 import bodies, lifecycle
from rehearsal.contracts import Completed, HostInventory, MachineSpec
from tests.contracts.live_target import LiveTargetContract, Scene
from verdict.errors import BadConfig, NoAccess

ZONE = "us-east-1a"
IMAGE = "ami-07a66fa2acbcfea88"
WINDOW_S = 14400
TAGS = {"app": "flexserve", "flexserve-owner": "me", "flexserve-stack": "g5g-spot"}
STALL_S = 20


class Quiet:
    """A machine whose files lie in a folder, and which has a console."""

    kind = "sandbox"

    def __init__(self, spec: MachineSpec, folder: Path) -> None:
        self.spec, self.folder, self.console, self.on = spec, folder, "", threading.Event()

    def start(self) -> None:
        self.on.set()

    def power_cut(self) -> None:
        self.on.clear()

    delete = reboot = power_cut

    def running(self) -> bool:
        return self.on.is_set()

    def log(self) -> str:
        return self.console

    def connect(self, port: int, timeout: float = 5.0) -> int:
        raise ConnectionRefusedError

    def exec(self, argv: Sequence[str], timeout: float = 20.0) -> Completed:
        if not self.on.is_set():
            raise RuntimeError("off")
        here = [word.replace("/var/lib/flexserve", str(self.folder)) for word in argv]
        done = subprocess.run(here, capture_output=True, text=True, timeout=min(timeout, 20), check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    def inventory(self) -> HostInventory:
        return HostInventory()


class Ec2Scene(Scene):
    """The deployment as the component makes it, made by hand."""

    foreign = DeploymentRef(stack="g5g-spot", id="ffffffffff")

    @property
    def tagged(self) -> dict[str, str]:
        return {**TAGS, "flexserve-id": self.ref.id}

    def __init__(self, cloud: LocalAwsCloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.session = Session(cloud.region, sleep=cloud.clock.sleep)
        self.live = Live(self.session)
        self.ref = DeploymentRef(stack="g5g-spot", id=secrets.token_hex(5))
        self.name, self.subnet_id = f"fs-{self.ref.id}", ""

    def tags(self, kind: str) -> list[dict[str, Any]]:
        end = {"flexserve-expires": str(int(self.cloud.clock.now()) + WINDOW_S), "Name": self.name}
        return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in {**self.tagged, **end}.items()]}]

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        return self.session.call(service, operation, **params)

    def create(self) -> None:
        self.role(
            self.name,
            "ec2.amazonaws.com",
            rights.machine("us-east-1", self.name, self.ref.id, "hf-token", builds=False, own_bucket=True),
        )
        self.call("iam", "attach_role_policy", RoleName=self.name, PolicyArn=rights.SSM_POLICY)
        self.call("iam", "create_instance_profile", InstanceProfileName=self.name)
        self.call("iam", "add_role_to_instance_profile", InstanceProfileName=self.name, RoleName=self.name)
        self.call("s3", "create_bucket", Bucket=self.name)
        self.call("s3", "put_object", Bucket=self.name, Key=f"{self.ref.id}/script", Body=b"#!/bin/bash\n")
        subnet, group = self.network()
        self.run(subnet, group)
        clock = self.role(f"{self.name}-clock", "scheduler.amazonaws.com", rights.clock("us-east-1", self.ref.id))
        self.call(
            "scheduler",
            "create_schedule",
            Name=self.name,
            ScheduleExpression="at(2030-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
                "RoleArn": clock,
                "Input": '{"InstanceIds":["i-1"]}',
            },
        )
        self.call(
            "ssm",
            "create_association",
            Name="AWS-RunShellScript",
            AssociationName=self.name,
            Targets=[{"Key": "InstanceIds", "Values": [self.instance]}],
            Parameters={"commands": ["true"]},
        )

    def role(self, name: str, service: str, policy: str) -> str:
        made = self.call("iam", "create_role", RoleName=name, AssumeRolePolicyDocument=rights.trust(service))
        self.call("iam", "put_role_policy", RoleName=name, PolicyName="own", PolicyDocument=policy)
        return str(made["Role"]["Arn"])

    def network(self) -> tuple[str, str]:
        vpc = self.call("ec2", "create_vpc", CidrBlock="10.9.0.0/24", TagSpecifications=self.tags("vpc"))["Vpc"]["VpcId"]
        part = network.subnet(self.name, "10.9.0.0/24", ZONE, vpc, {})["cidr_block"]
        tags = self.tags("subnet")
        subnet = self.call("ec2", "create_subnet", VpcId=vpc, CidrBlock=part, AvailabilityZone=ZONE, TagSpecifications=tags)
        tags = self.tags("internet-gateway")
        gateway = self.call("ec2", "create_internet_gateway", TagSpecifications=tags)["InternetGateway"]["InternetGatewayId"]
        self.call("ec2", "attach_internet_gateway", VpcId=vpc, InternetGatewayId=gateway)
        table = self.call("ec2", "create_route_table", VpcId=vpc, TagSpecifications=self.tags("route-table"))
        subnet_id, table_id = subnet["Subnet"]["SubnetId"], table["RouteTable"]["RouteTableId"]
        self.call("ec2", "create_route", RouteTableId=table_id, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
        self.call("ec2", "associate_route_table", RouteTableId=table_id, SubnetId=subnet_id)
        tags = self.tags("security-group")
        group = self.call(
            "ec2", "create_security_group", GroupName=self.name, Description="none", VpcId=vpc, TagSpecifications=tags
        )
        return str(subnet_id), str(group["GroupId"])

    def run(self, subnet: str = "", group: str = "", *, spot: bool = True) -> None:
        placed = {"SubnetId": subnet, "SecurityGroupIds": [group], "IamInstanceProfile": {"Name": self.name}} if subnet else {}
        disk = {"VolumeSize": 100, "VolumeType": "gp3", "Iops": 6000, "Throughput": 500, "DeleteOnTermination": True}
        made = self.call(
            "ec2",
            "run_instances",
            ImageId=IMAGE,
            InstanceType="g5g.xlarge",
            MinCount=1,
            MaxCount=1,
            BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": disk}],
            TagSpecifications=[*self.tags("instance"), *self.tags("volume")],
            **placed,
            **({"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}),
        )
        self.instance = str(made["Instances"][0]["InstanceId"])
        self.cloud.clock.advance(10)

    def online(self) -> None:
        until = time.monotonic() + STALL_S
        wanted = [{"Key": "InstanceIds", "Values": [self.instance]}]
        while not self.call("ssm", "describe_instance_information", Filters=wanted)["InstanceInformationList"]:
            assert time.monotonic() < until, "the agent did not come up"
            time.sleep(0.02)

    def report(self, key: str, document: str) -> None:
        (self.folder / "status").mkdir(exist_ok=True)
        (self.folder / "status" / key).write_text(document, encoding="utf-8")
        self.online()

    def speak(self, text: str) -> None:
        with (self.folder / "boot.log").open("a", encoding="utf-8") as log:
            log.write(text)
        self.online()

    def end(self) -> None:
        self.cloud.clock.advance(WINDOW_S + 60)
        self.call("ec2", "terminate_instances", InstanceIds=[self.instance])
        self.cloud.clock.advance(10)

    def fail(self) -> str:
        self.run()
        state = self.cloud.state
        reason = ("Server.InsufficientInstanceCapacity", "Insufficient capacity to satisfy instance request")
        with state.lock:
            instance = bodies.find(state, self.instance)
            lifecycle.end(state, instance, reason, "instance-terminated-no-capacity")
        self.cloud.clock.advance(10)
        return ZONE

    def money_words(self) -> str:
        return (
            "creating EC2 Instance: operation error EC2: RunInstances, https response error StatusCode: 500, RequestID: 1, "
            "api error InsufficientInstanceCapacity: There is no Spot capacity available that matches your request."
        )


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


@pytest.fixture
def scene(cloud, tmp_path) -> Ec2Scene:
    return Ec2Scene(cloud, tmp_path)


class TestEc2Spot(LiveTargetContract):
    @pytest.fixture
    def scene(self, cloud, tmp_path) -> Scene:
        return Ec2Scene(cloud, tmp_path)


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
