"""The stage of `ec2_spot`: local AWS, stand-in provider, booted machines with real cloud-init, Session Manager's data channel.

The bucket is one that the operator brings. The build is made by a builder, with stand-ins for what compiles; where a fault is of
something else, it was made before.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from catalog.loader import Catalog
from infra.deployment import from_stack_file
from infra.targets.ec2_spot.build import build_key
from infra.targets.ec2_spot.config import Config
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.machine import builds
from rehearsal.machine.faults import Behaviour
from rehearsal.prices import aws_catalog_price
from rehearsal.providers.aws import VERSION, aws_provider
from rehearsal.room_stage import RoomStage
from rehearsal.ssm.service import Service
from rehearsal.stage import Part
from rehearsal.tools import program_version, why_stand_in

ROOT = Path(__file__).resolve().parents[2]
STACK = "g5g-spot"
BUCKET = "rehearsal-builds"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CAPABILITY = "7.5"
PLACEHOLDERS = (f"target.build.commit={COMMIT}", f"target.bucket={BUCKET}")

RECORDED_S = {"build": 30.0, "weights": 60.0, "load": 120.0, "compile": 57.0}
"""Seconds: 177 from the engine's start to ready with swap (public run on g5g.xlarge); build and weights by 10 GB at 500 MB/s of
disk and network, computed and not measured."""

WHEEL_S = 67 * 60 * 12 / 30
"""Seconds: 67 minutes with 12 compilers at a time (public run on g5g.4xlarge), scaled to the 30 of the shipped builder."""

K, K_WHEEL = 60.0, 400.0
"""How many times shorter the stand-ins hold; the verdict tells held and own time apart."""


class Ec2SpotStage(RoomStage):
    """Everything around one local AWS account: cloud, the operator's bucket, provider, Session Manager's data channel, Hub."""

    bucket = BUCKET  # the operator's own

    def __init__(self, folder: Path) -> None:
        holds = {what: seconds / K for what, seconds in RECORDED_S.items()}
        super().__init__(folder, Behaviour(holds={**holds, "wheel": WHEEL_S / K_WHEEL}))
        self.aws: LocalAwsCloud
        self.on_reach: list[Callable[[Ec2SpotStage, str], None]] = []
        """What happens once, when somebody first reaches for the server of a machine through a session, before he does."""
        self._reached = threading.Lock()
        self._sessions: Service

    def _start(self, stack: ExitStack) -> Mapping[str, str]:
        price = aws_catalog_price(Catalog.load())
        self.aws = stack.enter_context(LocalAwsCloud(self.room, price=price, start_session=self._start_session))
        self.cloud = self.aws
        self._open_bucket()
        port = stack.enter_context(aws_provider(self.aws.clock.sleep))
        self._sessions = stack.enter_context(Service(self._connect))
        return {"PULUMI_DEBUG_PROVIDERS": f"aws:{port}"}

    def settings(self) -> Sequence[str]:
        """What fills in the shipped stack file's placeholders."""
        return PLACEHOLDERS

    def parts(self) -> Mapping[str, Part]:
        """Which parts were real."""
        return {
            "engine": Part(True, "pulumi", program_version("pulumi")),
            "provider": Part(False, "stand-in for pulumi-resource-aws, a table over botocore", VERSION, why_stand_in("aws")),
            "cloud": Part(False, "local AWS on moto, checked against AWS's own service models", version("moto"), "no account"),
            "machine": Part(True, "systemd-nspawn on this machine's own processor, with a real cloud-init")
            if self.room.machines
            else Part(None, "no machine was made"),
            "channel": Part(False, "local Session Manager service and agent, AWS's own plugin", "", "no account"),
            "vllm": Part(False, "stand-in server, arguments checked against vLLM's own list", "0.32.0", "no T4G here")
            if self.room.machines
            else Part(None, "no server was started"),
            "sdk": Part(True, "pulumi-aws", version("pulumi-aws")),
        }

    def config(self) -> Config:
        """The target as the shipped stack file has it, with its placeholders filled in."""
        return cast("Config", from_stack_file(ROOT, STACK, PLACEHOLDERS).target)

    def build(self) -> Sequence[str]:
        """The keys of the kept build in the operator's bucket."""
        return [key for key in self.aws.stored(BUCKET) if key.startswith("builds/")]

    def _open_bucket(self) -> None:
        """The operator's bucket, which holds something of his own."""
        self.aws.call("s3", "CreateBucket", Bucket=BUCKET)
        self.aws.call("s3", "PutObject", Bucket=BUCKET, Key="theirs/notes", Body=b"not of flexserve\n")

    def keep_build(self) -> None:
        """The build that the shipped stack file asks for was made before."""
        for name, data in builds.stand_in(CAPABILITY).files.items():
            key = f"builds/{build_key(self.config(), CAPABILITY)}/{name}"
            self.aws.call("s3", "PutObject", Bucket=BUCKET, Key=key, Body=data)

    def _start_session(self, target: str, document: str, parameters: Mapping[str, Any]) -> tuple[str, str, str]:
        body = {"Target": target, "DocumentName": document, "Parameters": dict(parameters)}
        answer = self._sessions.call("StartSession", body, signed=True)  # the front has checked the signature
        return answer["SessionId"], answer["StreamUrl"], answer["TokenValue"]

    def _connect(self, target: str, port: int) -> socket.socket:
        with self._reached:
            while self.on_reach:
                self.on_reach.pop(0)(self, target)
        machine = self.aws.machines().get(target)
        if machine is None:
            raise ConnectionRefusedError(f"{target} is not running")
        return socket.socket(fileno=machine.connect(port))


def stage(folder: Path) -> Ec2SpotStage:
    """The stage, not yet started."""
    return Ec2SpotStage(folder)
