"""What a stack file may say about a SageMaker endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from infra.clouds.aws import shapes
from infra.duration import parse_seconds
from infra.shape import AfterValidator, BeforeValidator, Field, Settings
from infra.targets.base import TargetSettings

if TYPE_CHECKING:
    from catalog.rows import HostImage

_Region = Annotated[str, AfterValidator(shapes.region)]
_Type = Annotated[str, AfterValidator(shapes.hosted_type)]
_Role = Annotated[str, AfterValidator(shapes.role)]
_Repository = Annotated[str, AfterValidator(shapes.repository)]
_Bucket = Annotated[str, AfterValidator(shapes.bucket)]
AUTO = "auto"
SETTLE_S = 60  # a new fleet serves so long before the old one goes
LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
"""What CloudWatch takes as a retention (PutRetentionPolicy)."""


def _log_days(days: int) -> int:
    if days not in LOG_DAYS:
        raise ValueError(f"must be one of {', '.join(map(str, LOG_DAYS))}")
    return days


def _mail(text: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", text):
        raise ValueError("write an address such as ops@example.com")
    return text


_Seconds = Annotated[int, BeforeValidator(parse_seconds)]
_LogDays = Annotated[int, AfterValidator(_log_days)]
_Mail = Annotated[str, AfterValidator(_mail)]


class Count(Settings):
    """How many machines serve."""

    min: int = Field(1, ge=1, le=100, description="Machines that serve at all times.")
    max: int = Field(1, ge=1, le=100, description="Machines at most; more than `min` makes the endpoint scale by itself.")

    def together(self) -> None:
        """The bounds are in order."""
        if self.max < self.min:
            raise ValueError(f"max {self.max} is less than min {self.min}")


class Scaling(Settings):
    """When another machine is added, where `count.max` is more than `count.min`."""

    by: Literal["concurrency", "invocations"] = Field(
        "concurrency", description="What is counted a machine: requests at once, or requests a minute."
    )
    target: float = Field(
        8, gt=0, le=1_000_000, description="How many of them a machine is to have; SageMaker adds or takes away machines."
    )
    in_after: _Seconds = Field(600, ge=0, le=7200, description="How long to wait before machines are taken away.")
    out_after: _Seconds = Field(300, ge=0, le=7200, description="How long to wait after an addition before the next.")


class Alarm(Settings):
    """Who is told when it costs too much. AWS looks some times a day: it does not stop anything."""

    usd: float = Field(ge=0.01, le=1_000_000_000, description="Dollars of a month.")
    mail: _Mail = Field(description="The address to write to.")


class Config(TargetSettings):
    """`flexserve:target` with `kind: sagemaker`."""

    cloud: ClassVar[str] = "aws"
    service: ClassVar[str] = "sagemaker"
    provisioning: ClassVar[str] = "on_demand"
    reads_image: ClassVar[bool] = True
    server_port: ClassVar[int | None] = None  # 8080, by the container itself
    disk_gb: ClassVar[int] = 0
    disk_type: ClassVar[str] = "instance-store"
    without: ClassVar[Mapping[str, str]] = {
        "access": "who may call the endpoint is who has the right sagemaker:InvokeEndpoint on it",
        "egress": "SageMaker gives its machines a way out that is its own",
    }

    kind: Literal["sagemaker"] = "sagemaker"
    region: _Region = Field("us-east-2", description="Region; `aws:region` of the stack file must say the same.")
    machine_type: _Type = Field("ml.g4dn.xlarge", description="SageMaker's machine type, as in the catalog.")
    count: Count = Field(Count(), description="How many machines serve.")
    scaling: Scaling = Field(Scaling(), description="When another machine is added.")
    host_image: str = Field(
        AUTO, description="`auto`: the host image whose driver fits the container's CUDA; or an InferenceAmiVersion by its name."
    )
    image_source: Literal["aws", "patched", "own"] = Field(
        "aws",
        description="`aws`: AWS's container as it is; `patched`: one built from it, for Turing cards and for stacks with a secret; "
        "`own`: `image.name` is such a build already, taken as it is; `up` holds its labels against that.",
    )
    start_timeout: _Seconds = Field(
        900, description="How long a container may take from its start to its first healthy answer, 60 s to 1 h."
    )
    download_timeout: _Seconds = Field(
        900, description="How long SageMaker may take to bring model data to the machine, 60 s to 1 h; it brings none here."
    )
    execution_role: _Role = Field("own", description="`own`, or the ARN of an existing role that SageMaker may take.")
    repository: _Repository = Field("own", description="`own`, or an existing ECR repository for the built image.")
    bucket: _Bucket = Field("own", description="`own`, or an existing bucket, for the files that the image is built from.")
    log_days: _LogDays = Field(14, description="How many days CloudWatch keeps the endpoint's log.")
    alarm: Alarm | None = Field(None, description="A mail once this deployment's cost of a month is over a sum (AWS Budgets).")

    @property
    def provider(self) -> Mapping[str, str]:
        """The provider's region: another than ours would tear the stack apart."""
        return {"aws:region": self.region}

    @property
    def places(self) -> tuple[str, ...]:
        """SageMaker is asked by region; it looks for the zone itself."""
        return (self.region,)

    def region_of(self, place: str) -> str:
        """A place is a region."""
        return place

    @property
    def catalogued(self) -> bool:
        """An own build is known by what its config says."""
        return self.image_source != "own"

    @property
    def machines(self) -> tuple[int, int]:
        """The fewest and the most machines that bill."""
        return self.count.min, self.count.max

    @property
    def billed(self) -> tuple[tuple[str, str, float], ...]:
        """What bills by use, which nobody knows beforehand: the catalog has no price of it, and the plan says so."""
        return (("data in and out", "sagemaker-data", 1.0), ("log", "cloudwatch-logs", 1.0))

    @property
    def firsts(self) -> tuple[tuple[str, str, str], ...]:
        """CodeBuild's minutes, as the project asks for them."""
        return (("the image's build", "codebuild-general1-large", "image"),) if self.image_source == "patched" else ()

    def stays(self, image_gib: float | None) -> tuple[tuple[str, str, float | None], ...]:
        """The built image, about as large as the one that it is built from."""
        size = "" if image_gib is None else f", {image_gib:.1f} GiB"
        return ((f"the built image{size}", "ecr-storage", image_gib),) if self.image_source == "patched" else ()

    @property
    def starts(self) -> tuple[str, ...]:
        """The window begins before the image is built, which the first `up` of a patched one does."""
        return ("image", "boot") if self.image_source == "patched" else ("boot",)

    @property
    def overlap_s(self) -> int:
        """Updates are blue/green: what bills beside what is there, from its first machine on, is as much again."""
        return SETTLE_S

    def host(self, cuda: str, rows: Iterable[HostImage]) -> str:
        """The host image: as asked for, or the one with the newest driver among those of the container's CUDA major version."""
        if self.host_image != AUTO:
            return self.host_image
        fitting = [row for row in rows if row.project == self.service and row.driver and major(row.cuda) == major(cuda)]
        return max(fitting, key=lambda row: int(row.driver)).family if fitting else AUTO


def major(version: str) -> str:
    """`13` of `13.0`; empty of an empty one."""
    return version.partition(".")[0]
