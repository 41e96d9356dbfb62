"""A local AWS for each test, machines that only run commands of ours, and boto3 pointed at it."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import boto3
import pytest
from botocore.config import Config

from rehearsal.cloud.aws import OPERATOR, LocalAwsCloud, Pace
from rehearsal.cloud.aws.front import SERVICES
from rehearsal.contracts import Completed, Ec2Guest, HostInventory, MachineSpec

IMAGE = "ami-07a66fa2acbcfea88"
PARAMETER = "/aws/service/deeplearning/ami/arm64/oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id"
ZONE = "us-east-1a"
SESSION = boto3.Session()
ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)


def prices(kind: str, attributes: Any) -> float | None:
    """An hour of an instance, a GB of a volume; the rest is not known."""
    if kind == "instance":
        return {"spot": 0.15, "on_demand": 0.42}[attributes["provisioning_model"]]
    return 0.0001 * attributes["size_gb"] if kind == "volume" else None


class FakeMachine:
    """Remembers what was done to it, and runs commands here while it is up."""

    kind = "sandbox"

    def __init__(self, spec: MachineSpec) -> None:
        self.spec, self.did, self.up = spec, [], threading.Event()
        self.commands: list[Sequence[str]] = []

    did: list[str]

    @property
    def guest(self) -> Ec2Guest:
        return self.spec.guest  # type: ignore[return-value]

    def start(self) -> None:
        self.guest.metadata()  # a machine asks at once, from the thread that starts it
        self.did.append("start")
        self.up.set()

    def power_cut(self) -> None:
        self.up.clear()
        self.did.append("power_cut")

    def reboot(self) -> None:
        self.did.append("reboot")

    def exec(self, argv: Sequence[str], timeout: float = 20.0) -> Completed:
        if not self.up.is_set():
            raise RuntimeError("off")
        self.commands.append(argv)
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=min(timeout, 20), check=False)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return Completed(done.returncode, done.stdout, done.stderr)

    def connect(self, port: int, timeout: float = 5.0) -> int:
        raise ConnectionRefusedError

    def log(self) -> str:
        return "Linux version 6\nlogin:\n"

    def running(self) -> bool:
        return self.up.is_set()

    def delete(self) -> None:
        self.up.clear()
        self.did.append("delete")

    def inventory(self) -> HostInventory:
        return HostInventory()


class World:
    """A running cloud and what was made in it."""

    def __init__(self, cloud: LocalAwsCloud, made: list[FakeMachine]) -> None:
        self.cloud, self.made = cloud, made
        self._clients: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """The operator's client of a service: `world.ec2`."""
        service = name.replace("_", "-")
        if service not in (*SERVICES.values(), "sagemaker-runtime"):
            raise AttributeError(name)
        if service not in self._clients:
            self._clients[service] = self.client(service, OPERATOR.key_id, OPERATOR.secret)
        return self._clients[service]

    def client(self, service: str, key_id: str, secret: str, token: str | None = None) -> Any:
        return SESSION.client(
            service,
            endpoint_url=self.cloud.base,
            region_name=self.cloud.region,
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=ONCE,
        )

    def as_machine(self, service: str, instance_id: str) -> Any:
        """A client with the keys that the instance's metadata gives."""
        tree: Any = self.cloud.guest(instance_id).metadata()
        (document,) = tree["meta-data"]["iam"]["security-credentials"].values()
        keys = json.loads(document)
        return self.client(service, keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"])

    def role(self, name: str, service: str, *statements: dict[str, Any]) -> str:
        """A role that a service may assume, with these statements; its ARN."""
        trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}]}
        arn = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        if statements:
            document = {"Version": "2012-10-17", "Statement": list(statements)}
            self.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=json.dumps(document))
        return str(arn)

    def profile(self, name: str, *statements: dict[str, Any], ssm: bool = True) -> str:
        """An instance profile with such a role of the same name."""
        self.role(name, "ec2.amazonaws.com", *statements)
        if ssm:
            self.iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
        self.iam.create_instance_profile(InstanceProfileName=name)
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return name

    def run(self, *, spot: bool = True, **over: Any) -> str:
        """Run a g5g.xlarge; its id."""
        arguments: dict[str, Any] = {"ImageId": IMAGE, "InstanceType": "g5g.xlarge", "MinCount": 1, "MaxCount": 1}
        if spot:
            arguments["InstanceMarketOptions"] = {"MarketType": "spot"}
        return str(self.ec2.run_instances(**arguments | over)["Instances"][0]["InstanceId"])

    def running(self, **over: Any) -> str:
        """Run one and let it come up; its id."""
        instance_id = self.run(**over)
        self.cloud.clock.advance(10)
        assert self.state(instance_id) == "running"
        return instance_id

    def managed(self, *statements: dict[str, Any], **over: Any) -> str:
        """One that Systems Manager reaches; its id."""
        instance_id = self.running(IamInstanceProfile={"Name": self.profile("vm", *statements)}, **over)
        until(lambda: self.ssm.describe_instance_information()["InstanceInformationList"])
        return instance_id

    def state(self, instance_id: str) -> str:
        found = self.ec2.describe_instances(InstanceIds=[instance_id])
        return str(found["Reservations"][0]["Instances"][0]["State"]["Name"])

    def left(self) -> list[str]:
        return [item.kind for item in self.cloud.ledger.left()]


def until(found: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What `found` gives once it gives something."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return value


def refused(code: str) -> Any:
    """The client's error has this code."""
    from botocore.exceptions import ClientError

    return pytest.raises(ClientError, match=rf"\({code}\)")


@pytest.fixture
def world() -> Iterator[World]:
    """A running cloud with fake machines; at the end every answer must have been one that AWS's model allows."""
    made: list[FakeMachine] = []

    def factory(spec: MachineSpec) -> FakeMachine:
        made.append(FakeMachine(spec))
        return made[-1]

    with LocalAwsCloud(factory, price=prices, pace=Pace(iam=0)) as cloud:
        yield World(cloud, made)
        assert cloud.own_errors() == ()
    assert all(machine.did[-1] == "delete" for machine in made)
