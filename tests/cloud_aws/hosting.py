"""An account with a role, an image and containers, ready to host an endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.cloud.aws.pace import Hosting
from tests.cloud_aws.conftest import World
from tests.cloud_aws.containers import Cluster, Shelf

CUDA13 = "al2023-ami-sagemaker-inference-gpu-4-1"
NAME = "fs-abc"
GROUP = f"/aws/sagemaker/Endpoints/{NAME}"
RIGHTS = (
    {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"},
    {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
    {
        "Effect": "Allow",
        "Action": ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability"],
        "Resource": "*",
    },
)


class Hosted(World):
    """The operator's clients, and what is hosted."""

    def __init__(self, cloud: LocalAwsCloud, cluster: Cluster, shelf: Shelf) -> None:
        super().__init__(cloud, [])
        self.cluster, self.shelf = cluster, shelf
        self.image = ""
        self.numbers = iter(range(1, 100))

    @property
    def runtime(self) -> Any:
        return self.sagemaker_runtime

    def prepare(self) -> None:
        """Role, repository with an image, log group."""
        self.role("run", "sagemaker.amazonaws.com", *RIGHTS)
        self.cloud.clock.advance(5)
        self.ecr.create_repository(repositoryName="fs-abc", imageTagMutability="IMMUTABLE")
        digest = self.shelf.put(self.cloud.account, "fs-abc", "one", environment={"NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=x"})
        self.image = f"{self.cloud.account}.dkr.ecr.us-east-1.amazonaws.com/fs-abc@{digest}"
        self.logs.create_log_group(logGroupName=GROUP)

    @property
    def role_arn(self) -> str:
        return f"arn:aws:iam::{self.cloud.account}:role/run"

    def model(self, **over: Any) -> str:
        name = f"fs-abc-m{next(self.numbers)}"
        container = {"Image": self.image, "Environment": {"SM_VLLM_MODEL": "google/gemma-4-E2B-it"}, **over}
        self.sagemaker.create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=self.role_arn)
        return name

    def config(self, kind: str = "ml.g4dn.xlarge", model: str = "", **over: Any) -> str:
        name = f"fs-abc-c{next(self.numbers)}"
        variant = {
            "VariantName": "main",
            "ModelName": model or self.model(),
            "InstanceType": kind,
            "InitialInstanceCount": 1,
            "InferenceAmiVersion": CUDA13,
            "ContainerStartupHealthCheckTimeoutInSeconds": 900,
            **over,
        }
        wanted = {k: v for k, v in variant.items() if v is not None}
        self.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[wanted])
        return name

    def create(self, config: str = "", **over: Any) -> None:
        self.sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=config or self.config(), **over)

    def up(self, config: str = "") -> None:
        self.create(config)
        self.cloud.clock.advance(800)
        assert self.status() == "InService", self.shown()

    def shown(self) -> Any:
        return self.sagemaker.describe_endpoint(EndpointName=NAME)

    def status(self) -> str:
        return str(self.shown()["EndpointStatus"])

    def ask(self, **body: Any) -> Any:
        answer = self.runtime.invoke_endpoint(EndpointName=NAME, ContentType="application/json", Body=json.dumps(body))
        return json.loads(answer["Body"].read())

    def stream(self, **body: Any) -> Iterator[Any]:
        answer = self.runtime.invoke_endpoint_with_response_stream(
            EndpointName=NAME, ContentType="application/json", Body=json.dumps({"stream": True, **body})
        )
        yield from answer["Body"]

    def said(self) -> list[str]:
        streams = self.logs.describe_log_streams(logGroupName=GROUP)["logStreams"]
        found = [
            self.logs.get_log_events(logGroupName=GROUP, logStreamName=s["logStreamName"], startFromHead=True) for s in streams
        ]
        return [event["message"] for page in found for event in page["events"]]


@contextmanager
def hosted(**over: Any) -> Iterator[Hosted]:
    """A fresh account. Whatever it answers must be what AWS could answer."""
    cluster, shelf = Cluster(), Shelf()
    pace = Pace(iam=0, hosting=replace(Hosting(patience=10.0, drain=5.0), **over))
    with LocalAwsCloud(pace=pace) as cloud:
        cloud.serve_containers(cluster, images=shelf)
        world = Hosted(cloud, cluster, shelf)
        world.prepare()
        yield world
        assert cloud.own_errors() == ()
    assert cluster.running() == []
