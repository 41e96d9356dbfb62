"""The stage of an endpoint without a machine: containers are threads, builds push at once. The engine and all commands are real."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from catalog.loader import Catalog
from rehearsal.backstage import NOTHING_LEAVES, OperatorsHub
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.cloud.aws.buckets import member
from rehearsal.prices import aws_catalog_price
from rehearsal.providers.aws import aws_provider
from rehearsal.sagemaker.contracts import Build, BuildSpec
from rehearsal.stage import Part
from rehearsal.targets.sagemaker import PACE, SageMakerStage
from startup.image import BUILD_VARIABLE
from tests.cloud_aws.containers import Cluster
from tests.infra.sagemaker_scene import Builder, Images

TAG = re.compile(r'^readonly IMAGE="[^"]*":(.*)$', re.MULTILINE)
AWS_ACCOUNT, REPOSITORY = "763104351884", "vllm"
BRISK = replace(PACE, hosting=replace(PACE.hosting, readers=5.0))
"""A thread dies three times within a second, and its log is read within two: that nobody reads on is soon clear."""


class Pushing(Builder):
    """Pushes what the project's variable and the build's file name."""

    def __call__(self, spec: BuildSpec) -> Build:
        registry, _, repository = spec.environment[BUILD_VARIABLE].partition("/")
        (tag,) = TAG.findall(member(spec.source, "build.sh").decode())
        self.pushes = (registry.partition(".")[0], repository, shlex.split(tag)[0])
        return super().__call__(spec)


class Light(SageMakerStage):
    """`cluster`, `images`, `builder`: what a test may break. `says`: what AWS's image says of itself."""

    says = ("CUDA_VERSION=13.0.2", "TORCH_CUDA_ARCH_LIST=7.5 8.0 8.6 9.0")

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cluster, self.images = Cluster(), Images()
        self.builder = Pushing(self.images)
        image = self.deployment().image
        assert image is not None and image.tag is not None
        self.images.keep(AWS_ACCOUNT, REPOSITORY, image.tag, says=self.says)
        with ExitStack() as stack:
            price = aws_catalog_price(Catalog.load())
            self.aws = stack.enter_context(LocalAwsCloud(region=self.config().region, price=price, pace=BRISK))
            self.cloud = self.aws
            self.aws.serve_containers(self.cluster, self.builder, self.images)
            port = stack.enter_context(aws_provider(self.aws.provider_sleep))
            self._environment = {
                **self.aws.environment(),
                "PULUMI_DEBUG_PROVIDERS": f"aws:{port}",
                "HF_ENDPOINT": stack.enter_context(OperatorsHub()),
                **NOTHING_LEAVES,
            }
            self._stack = stack.pop_all()
        return self

    def parts(self) -> Mapping[str, Part]:
        return {}

    def host_left(self) -> Sequence[str]:
        return ()


def light(_kind: str, folder: Path) -> Any:
    """In place of `rehearsal.stage.stage`."""
    return Light(folder)
