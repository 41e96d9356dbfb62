"""What an endpoint says about itself: SageMaker's description, the configuration it moves to, and its log. And the boot it makes.

There is no boot script that reports: the phases are read off what the cloud and the server say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.aws.session import NotThere
from infra.targets.sagemaker.verdicts import Evidence
from startup.phases import BootStatus, Phase

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.targets.sagemaker.names import Names

SCRIPT_TAG, CUDA_TAG = "flexserve-script", "flexserve-cuda"
PAGE = 10_000
MARKS = (
    ("weights", re.compile(r"Starting to load model")),
    ("load", re.compile(r"Loading weights took")),
    ("compile", re.compile(r"Model loading took")),
    ("serving", re.compile(r"Application startup complete")),
)
"""What the server says when a phase begins."""


@dataclass(frozen=True)
class Line:
    """One line of the log, at so many seconds of epoch time."""

    at: float
    text: str


@dataclass(frozen=True)
class Look:
    """Everything that one look at an endpoint finds. `config`: the one it moves to, or has."""

    endpoint: Mapping[str, Any]
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    streams: Sequence[Mapping[str, Any]] = ()
    lines: Sequence[Line] = ()
    build: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """SageMaker's word for it."""
        return str(self.endpoint.get("EndpointStatus", ""))

    @property
    def variant(self) -> Mapping[str, Any]:
        """The one variant of the configuration."""
        return next(iter(self.config.get("ProductionVariants") or ()), {})

    @property
    def since(self) -> datetime:
        """When it began to move: its create, or its last update."""
        at: datetime = self.endpoint["LastModifiedTime"] if self.status != "Creating" else self.endpoint["CreationTime"]
        return at.astimezone(UTC)


def describe(session: Session, names: Names) -> dict[str, Any] | None:
    """SageMaker's description of the endpoint; None where there is none."""
    try:
        return session.call("sagemaker", "describe_endpoint", EndpointName=names.base)
    except NotThere:
        return None


def look(session: Session, names: Names, endpoint: Mapping[str, Any]) -> Look:
    """The configuration and the log that go with it. What is not there is empty."""
    pending = endpoint.get("PendingDeploymentSummary") or {}
    name = str(pending.get("EndpointConfigName") or endpoint.get("EndpointConfigName", ""))
    config: Mapping[str, Any] = {}
    tags: dict[str, str] = {}
    try:
        config = session.call("sagemaker", "describe_endpoint_config", EndpointConfigName=name)
        tags = tags_of(session, str(config["EndpointConfigArn"]))
    except NotThere:
        pass
    streams = streams_of(session, names)
    began = Look(endpoint, config, tags).since.timestamp()
    fresh = [
        s for s in streams if str(endpoint.get("EndpointStatus")) == "Creating" or s.get("creationTime", 0) / 1000 >= began - 1
    ]
    lines = [line for stream in fresh for line in read(session, names, str(stream["logStreamName"]))]
    return Look(endpoint, config, tags, fresh, sorted(lines, key=lambda line: line.at), build_of(session, names))


def tags_of(session: Session, arn: str) -> dict[str, str]:
    """The tags of a thing of SageMaker's."""
    found = session.pages("sagemaker", "list_tags", "Tags", ResourceArn=arn)
    return {str(t["Key"]): str(t["Value"]) for t in found}


def streams_of(session: Session, names: Names) -> list[dict[str, Any]]:
    """The log streams, one a machine; none where there is no group."""
    try:
        return list(session.pages("logs", "describe_log_streams", "logStreams", logGroupName=names.logs))
    except NotThere:
        return []


def read(session: Session, names: Names, stream: str) -> list[Line]:
    """A stream from its beginning, as far as one answer holds."""
    try:
        answer = session.call(
            "logs", "get_log_events", logGroupName=names.logs, logStreamName=stream, limit=PAGE, startFromHead=True
        )
    except NotThere:
        return []
    return [Line(e["timestamp"] / 1000, str(e.get("message", "")).rstrip("\n")) for e in answer.get("events") or []]


def build_of(session: Session, names: Names) -> Mapping[str, Any]:
    """The newest build of the image; empty where none was made."""
    try:
        ids = session.call("codebuild", "list_builds_for_project", projectName=names.base, sortOrder="DESCENDING").get("ids") or []
        builds = session.call("codebuild", "batch_get_builds", ids=ids[:1]).get("builds") if ids else []
    except NotThere:
        return {}
    return next(iter(builds or ()), {})


def evidence(seen: Look, now: datetime) -> Evidence:
    """What the verdict is made of."""
    from catalog.loader import Catalog

    host = str(seen.variant.get("InferenceAmiVersion", ""))
    row = next((r for r in Catalog.load().host_images if r.family == host), None)
    reason = str(seen.endpoint.get("FailureReason") or "")
    return Evidence(
        status=seen.status,
        reason=reason,
        since=(now - seen.since).total_seconds(),
        streams=len(seen.streams),
        lines=[line.text for line in seen.lines],
        host_image=host,
        host_cuda=row.cuda if row else "",
        host_driver=row.driver if row else "",
        image_cuda=seen.tags.get(CUDA_TAG, ""),
        machine_type=str(seen.variant.get("InstanceType", "")),
        rolled_back=seen.status == "InService" and bool(reason),
    )


def boot(seen: Look, now: datetime, failed: str = "") -> BootStatus:
    """The boot as its phases. `failed`: why it will not serve, where that is known."""
    serves = seen.status == "InService"
    began = _start(seen)
    steps = list(_steps(seen))
    phases = []
    for number, (name, at) in enumerate(steps):
        until = steps[number + 1][1] if number + 1 < len(steps) else None
        result = "done" if until is not None or (serves and not failed) else "failed" if failed else "running"
        phases.append(
            Phase(
                name=name,
                start_s=round(at - began, 1),
                seconds=round(until - at, 1) if until is not None else None,
                result=result,
                cause=failed if result == "failed" else "",
            )
        )
    state = "failed" if failed else "serving" if serves else "booting"
    return BootStatus(
        state=state,
        script=seen.tags.get(SCRIPT_TAG, ""),
        phase=phases[-1].name if phases else "",
        cause=failed,
        started_at=int(began),
        updated_at=int(now.timestamp()),
        boot_id=str(seen.endpoint.get("EndpointConfigName", "")),
        phases=tuple(phases),
    )


def _start(seen: Look) -> float:
    return min([seen.since.timestamp(), *(at for _, at in _steps(seen))])


def _steps(seen: Look) -> list[tuple[str, float]]:
    """Phases that have begun, and when, in order: the image's build, a machine, the container, then what the server says."""
    steps: list[tuple[str, float]] = []
    built = seen.build.get("startTime")
    if isinstance(built, datetime):
        steps.append(("image", built.timestamp()))
    steps.append(("instance", seen.since.timestamp()))
    first = min((s["creationTime"] / 1000 for s in seen.streams if s.get("creationTime")), default=None)
    if first is not None:
        steps.append(("start", first))
    for name, mark in MARKS:
        at = next((line.at for line in reversed(seen.lines) if mark.search(line.text)), None)
        if at is not None and at >= steps[-1][1]:
            steps.append((name, at))
    return steps
