"""The stage of `sagemaker`: local AWS with its endpoints, stand-in provider, a booted machine whose dockerd runs the containers and
builds the image, AWS's base image in a registry of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import cast

from catalog.loader import Catalog
from infra.deployment import Deployment, from_stack_file
from infra.targets.sagemaker.config import Config
from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.cloud.aws.pace import Hosting
from rehearsal.machine.faults import Behaviour
from rehearsal.prices import aws_catalog_price
from rehearsal.providers.aws import VERSION, aws_provider
from rehearsal.room_stage import RoomStage
from rehearsal.sagemaker.base import Base
from rehearsal.sagemaker.builder import Builder
from rehearsal.sagemaker.hosts import Hosts
from rehearsal.sagemaker.registry import LocalRegistry
from rehearsal.stage import Part
from rehearsal.tools import program_version, why_stand_in

ROOT = Path(__file__).resolve().parents[2]
STACK = "sagemaker-t4"
"""Region and image are the same in both stacks that are shipped."""

PACE = Pace(hosting=Hosting(readers=20.0, turn=60.0))
"""After a third crash the clock stands until somebody has read the log; one question of an operator who waits is a minute."""


class SageMakerStage(RoomStage):
    """Everything around one local AWS account: cloud, registry with AWS's image, containers' machine, provider, Hub."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Behaviour())
        self.aws: LocalAwsCloud
        self.registry: LocalRegistry

    def _start(self, stack: ExitStack) -> Mapping[str, str]:
        price = aws_catalog_price(Catalog.load())
        self.aws = stack.enter_context(LocalAwsCloud(region=self.config().region, price=price, pace=PACE))
        self.cloud = self.aws
        self.registry = LocalRegistry(self.room)
        self.seed()
        gate = self.aws.registry_gate()
        hosts = Hosts(self.room, gate)
        self.aws.serve_containers(hosts, Builder(self.room, gate, hosts.machine()), self.registry)
        hosts.warm()
        port = stack.enter_context(aws_provider(self.aws.provider_sleep))
        return {"PULUMI_DEBUG_PROVIDERS": f"aws:{port}"}

    def seed(self, base: Base | None = None) -> None:
        """AWS's image, under the tag that the stacks name, in AWS's own account."""
        image = self.deployment().image
        assert image is not None and image.tag is not None
        self.registry.seed(image.tag, base)

    def settings(self) -> Sequence[str]:
        """Nothing: the shipped stack files have no placeholder."""
        return ()

    def held(self) -> Mapping[str, float]:
        """Nothing is held on purpose: recorded times pass on the cloud's clock."""
        return {}

    def parts(self) -> Mapping[str, Part]:
        """Which parts were real."""
        ran = bool(self.room.machines)
        return {
            "engine": Part(True, "pulumi", program_version("pulumi")),
            "provider": Part(False, "stand-in for pulumi-resource-aws, a table over botocore", VERSION, why_stand_in("aws")),
            "cloud": Part(False, "local AWS with SageMaker's states, checked against AWS's service models", "", "no account"),
            "containers": Part(True, "Docker in a booted machine, no card: the stand-in server pretends one")
            if ran
            else Part(None, "no container was run"),
            "image": Part(
                False, "built for real from a local base with the layout of AWS's container", "0.30.0", "8 GB, no account"
            ),
            "vllm": Part(False, "stand-in server, arguments checked against vLLM's own list", "0.32.0", "no T4 or L4 here"),
            "sdk": Part(True, "pulumi-aws", version("pulumi-aws")),
        }

    def deployment(self) -> Deployment:
        """The shipped stack file."""
        return from_stack_file(ROOT, STACK, ())

    def config(self) -> Config:
        """Its target."""
        return cast("Config", self.deployment().target)


def stage(folder: Path) -> SageMakerStage:
    """The stage, not yet started."""
    return SageMakerStage(folder)
