"""Plan -> argument dictionaries for the resources of one endpoint. Pure: no cloud, no clock, no pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from infra.kept import Choice, OnChange, Wanted
from infra.targets.sagemaker.environment import environment
from infra.targets.sagemaker.names import Names
from startup.spec import BootSpec, SageMakerBoot, SecretRef
from verdict.errors import BadConfig

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.plan import Plan
    from infra.targets.sagemaker.config import Config

Args = dict[str, Any]
MACHINE_TYPE = "aws:sagemaker/endpoint:Endpoint"  # Pulumi's type of what serves: what the state is searched for
OWN = "own"
DELETE_ENDPOINT = "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"
SCALABLE = "sagemaker:variant:DesiredInstanceCount"
METRICS = {
    "concurrency": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    "invocations": "SageMakerVariantInvocationsPerInstance",
}
BUILD_MINUTES, QUEUED_MINUTES = 60, 30  # measured: 191 s of build, 565 s of push
BUILD_COMPUTE = "BUILD_GENERAL1_LARGE"  # 8 GiB of image are unpacked and pushed
BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
SETTLE_S = 60  # a new fleet serves so long before the old one goes


def config(plan: Plan) -> Config:
    """The target part of the stack file, by its own type."""
    from infra.targets.sagemaker.config import Config

    assert isinstance(plan.deployment.target, Config)
    return plan.deployment.target


def boot_spec(plan: Plan) -> BootSpec:
    """What this target adds to the boot. Without an id yet, the repository is what it is made of, and nothing is built."""
    from infra.clouds.aws import shapes

    c, secret = config(plan), plan.deployment.common.secret
    if secret is not None:
        try:
            shapes.secret_id(secret.name)
        except ValueError as error:
            raise BadConfig(f"flexserve:secret.name: {error}") from error
    names, built = Names(plan.boot.deployment_id), c.image_source == "patched"
    sagemaker = SageMakerBoot(
        region=c.region,
        gpu=plan.accelerator.name.upper(),
        capability=plan.accelerator.capability,
        repository=repository_name(c, names) if built else "",
        patch=built,
        secret_arn=secret.name if secret else "",
    )
    reference = SecretRef("aws-secrets-manager", c.region, secret.name) if secret else None
    more = environment(plan.vllm, plan.boot.model_revision or "unresolved", plan.deployment.serving.environment)
    return replace(plan.boot, sagemaker=sagemaker, secret=reference, environment=more)


def wanted(deployment: Deployment, place: str) -> dict[str, Wanted]:  # noqa: ARG001 - there is one place
    """The keys that are decided at create. All else of an endpoint changes in place: a new configuration, blue/green."""
    c = cast("Config", deployment.target)
    found: dict[str, Wanted] = {"target.region": Wanted(c.region, c.region, OnChange.REFUSE)}
    if c.image_source == "patched":
        own = c.repository == OWN
        found["target.repository"] = Wanted(c.repository, None if own else c.repository, OnChange.FOLLOW)
    return found


def settled(c: Config, choices: Mapping[str, Choice]) -> Config:
    """The config with what was decided in place of what was asked for."""
    repository = choices["target.repository"].value if "target.repository" in choices else c.repository
    return c.model_copy(update={"region": choices["target.region"].value, "repository": repository})


def repository_name(c: Config, names: Names) -> str:
    """The repository of the built image: one of our own has the id in its name."""
    return names.base if c.repository == OWN else c.repository
