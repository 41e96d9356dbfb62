"""A deployment of the endpoint in the local AWS, made by hand as the component makes it."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from infra.clouds.aws import policies
from infra.clouds.aws.session import Session
from infra.targets.protocol import DeploymentRef
from infra.targets.sagemaker import rights
from infra.targets.sagemaker.live import Live
from infra.targets.sagemaker.names import Names
from infra.targets.sagemaker.reports import SCRIPT_TAG
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.sagemaker.contracts import Build, BuildPhase, BuildSpec, Manifest
from startup.manifest import DOCKER_V2, OCI_INDEX
from tests.cloud_aws.containers import Cluster, Shelf
from tests.contracts.live_target import Scene

REGION = "us-east-2"
HOST13, HOST12 = "al2023-ami-sagemaker-inference-gpu-4-1", "al2-ami-sagemaker-inference-gpu-3-1"
WINDOW_S = 14400
TAGS = {"app": "flexserve", "flexserve-owner": "me", "flexserve-stack": "sagemaker-t4"}
STALL_S = 20
UP_S = 800
NO_CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. Please retry."


class Images(Shelf):
    """A registry without a server, whose images are what SageMaker takes unless another media type is asked for."""

    def keep(
        self,
        account: str,
        repository: str,
        *tags: str,
        media_type: str = DOCKER_V2,
        says: Sequence[str] = ("NVIDIA_REQUIRE_CUDA=cuda>=13.0",),
        labels: Mapping[str, str] = {},
        processor: str = "amd64",
    ) -> str:
        """An image, of a CUDA 13 unless its variables (`says`) are others; its digest."""
        inside = {"Env": list(says), "Labels": dict(labels)}
        config = json.dumps({"os": "linux", "architecture": processor, "config": inside}).encode()
        name = f"sha256:{sha256(config).hexdigest()}"
        self.blobs[name] = config
        inner: dict[str, Any] = {"config": {"digest": name, "size": 1}, "layers": [{"digest": name, "size": 8_000_000_000}]}
        body = json.dumps({"schemaVersion": 2, "mediaType": media_type, **inner, "for": [repository, *tags]}).encode()
        digest = f"sha256:{sha256(body).hexdigest()}"
        self.held.setdefault((account, repository), []).append(Manifest(digest, media_type, body, tags, 1.0, 8_000_000_000))
        return digest

    def index(self, account: str, repository: str, tag: str, **images: str) -> str:
        """An index of images that are there, by their processors; its digest."""
        entries = [{"digest": digest, "platform": {"os": "linux", "architecture": name}} for name, digest in images.items()]
        body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}).encode()
        digest = f"sha256:{sha256(body).hexdigest()}"
        self.held.setdefault((account, repository), []).append(Manifest(digest, OCI_INDEX, body, (tag,), 1.0, 0))
        return digest


class Builder:
    """Builds nothing: what a build would push is there then. `fails`: with these last words."""

    def __init__(self, images: Images) -> None:
        self.images, self.fails, self.pushes = images, "", ("123456789012", "none", "none")
        self.built: list[BuildSpec] = []
        self.may = threading.Event()
        self.may.set()

    def __call__(self, spec: BuildSpec) -> Build:
        self.built.append(spec)
        assert self.may.wait(STALL_S)
        if self.fails:
            return Build(False, [BuildPhase("BUILD", "FAILED", 1.0, "COMMAND_EXECUTION_ERROR")], f"step 1\n{self.fails}\n")
        account, repository, tag = self.pushes
        self.images.keep(account, repository, tag)
        return Build(True, [BuildPhase("BUILD", "SUCCEEDED", 1.0)], "done\n")


class EndpointScene(Scene):
    """The deployment as the component makes it, made by hand."""

    foreign = DeploymentRef(stack="sagemaker-t4", id="ffffffffff")

    def __init__(self, cloud: LocalAwsCloud, session: Session, cluster: Cluster, images: Images, builder: Builder) -> None:
        self.cloud, self.session, self.cluster, self.images, self.builder = cloud, session, cluster, images, builder
        self.ref = DeploymentRef(stack="sagemaker-t4", id=secrets.token_hex(5))
        self.names = Names(self.ref.id)
        self.live = Live(self.session)
        self.made = iter(range(1, 100))
        self.role_arn = ""

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        return self.session.call(service, operation, **params)

    @property
    def tagged(self) -> dict[str, str]:
        return {**TAGS, "flexserve-id": self.ref.id, "flexserve-expires": str(int(self.cloud.clock.now()) + WINDOW_S)}

    def tags(self, **more: str) -> list[dict[str, str]]:
        return [{"Key": k, "Value": v} for k, v in {**self.tagged, **more}.items()]

    def role(self, name: str, service: str, policy: str) -> str:
        made = self.call("iam", "create_role", RoleName=name, AssumeRolePolicyDocument=policies.trust(service))
        self.call("iam", "put_role_policy", RoleName=name, PolicyName="own", PolicyDocument=policy)
        return str(made["Role"]["Arn"])

    def foundation(self) -> None:
        """Role, repository with an image, log group."""
        if self.role_arn:
            return
        names, account = self.names, self.cloud.account
        repository = rights.repository_arn(REGION, account, names.base)
        self.role_arn = self.role(names.run, rights.SAGEMAKER, rights.run(REGION, names, repository))
        self.call("ecr", "create_repository", repositoryName=names.base, imageTagMutability="IMMUTABLE", tags=self.tags())
        digest = self.images.keep(account, names.base, "one")
        self.image = f"{account}.dkr.ecr.{REGION}.amazonaws.com/{names.base}@{digest}"
        self.call("logs", "create_log_group", logGroupName=names.logs, tags=self.tagged)

    def configuration(self, kind: str = "ml.g4dn.xlarge", host: str = HOST13, script: str = "5" * 64) -> str:
        name = f"{self.names.each}c{next(self.made)}"
        model = f"{self.names.each}m{next(self.made)}"
        container = {"Image": self.image, "Environment": {"SM_VLLM_MODEL": "google/gemma-4-E2B-it"}}
        self.call("sagemaker", "create_model", ModelName=model, PrimaryContainer=container, ExecutionRoleArn=self.role_arn)
        variant = {
            "VariantName": "main",
            "ModelName": model,
            "InstanceType": kind,
            "InitialInstanceCount": 1,
            "InferenceAmiVersion": host,
            "ContainerStartupHealthCheckTimeoutInSeconds": 900,
        }
        tags = self.tags(**{SCRIPT_TAG: script, "flexserve-cuda": "13.0"})
        self.call("sagemaker", "create_endpoint_config", EndpointConfigName=name, ProductionVariants=[variant], Tags=tags)
        return name

    def begin(self, **how: str) -> None:
        """An endpoint on its way."""
        self.foundation()
        name = self.configuration(**how)
        self.call("sagemaker", "create_endpoint", EndpointName=self.names.base, EndpointConfigName=name, Tags=self.tags())

    def move(self, kind: str = "ml.g4dn.xlarge", **how: str) -> None:
        """An update on its way."""
        name = self.configuration(kind, **how)
        self.call("sagemaker", "update_endpoint", EndpointName=self.names.base, EndpointConfigName=name)

    def create(self) -> None:
        if self.live.find(self.ref) is not None:  # one that failed before
            self.call("sagemaker", "delete_endpoint", EndpointName=self.names.base)
            self.cloud.clock.advance(60)
        self.cloud.state.sagemaker.without.clear()
        self.begin()
        self.cloud.clock.advance(UP_S)
        self.clock_of_the_cloud()

    def clock_of_the_cloud(self) -> None:
        """The schedule and its role."""
        from datetime import UTC, datetime

        ends_at = int(self.cloud.clock.now() + WINDOW_S)
        arn = self.role(self.names.clock, rights.SCHEDULER, rights.clock(REGION, self.names, ends_at))
        at = datetime.fromtimestamp(ends_at, UTC)
        self.call(
            "scheduler",
            "create_schedule",
            Name=self.names.base,
            ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
                "RoleArn": arn,
                "Input": json.dumps({"EndpointName": self.names.base}),
            },
        )

    def report(self, key: str, document: str) -> None:
        raise AssertionError("an endpoint reports nothing: its phases are read off what is seen")

    def speak(self, text: str) -> None:
        (container,) = [c for c in self.cluster.running() if self.names.base in c.spec.image]
        container.lines += text.splitlines()
        until = time.monotonic() + STALL_S
        while text.splitlines()[-1] not in self.live.log(self.ref)[0]:
            assert time.monotonic() < until, "the log did not come"
            time.sleep(0.05)

    def end(self) -> None:
        self.cloud.clock.advance(WINDOW_S + 120)

    def fail(self) -> str:
        self.cloud.take_endpoint_type("ml.g4dn.xlarge")
        self.begin()
        self.cloud.clock.advance(1900)
        return REGION

    def money_words(self) -> str:
        return f"waiting for SageMaker AI Endpoint (fs-1) create: unexpected state 'Failed'. last error: {NO_CAPACITY}"
