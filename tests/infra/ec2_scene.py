"""A deployment of the spot target in the local AWS, made by hand as the component makes it."""

from __future__ import annotations

import secrets
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.clouds.aws import policies
from infra.clouds.aws.session import Session
from infra.targets.ec2_spot import network, rights
from infra.targets.ec2_spot.live import Live
from infra.targets.protocol import DeploymentRef
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.cloud.aws.ec2 import bodies, lifecycle
from rehearsal.contracts import Completed, HostInventory, MachineSpec
from tests.contracts.live_target import Scene

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

    def __init__(self, cloud: LocalAwsCloud, folder: Path, session: Session | None = None) -> None:
        """`session`: one that an earlier scene of this cloud has used."""
        self.cloud, self.folder = cloud, folder
        self.session = session or Session(cloud.region, sleep=cloud.clock.sleep)
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
            rights.machine("us-east-1", self.name, self.ref.id, "hf-token", own_bucket=True),
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
        made = self.call("iam", "create_role", RoleName=name, AssumeRolePolicyDocument=policies.trust(service))
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
        (self.folder / key).write_text(document, encoding="utf-8")
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
