"""What an endpoint says about itself: SageMaker's description, the configuration it moves to, and its log. And the boot it makes.

There is no boot script that reports: the phases are read off what the cloud and the server say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import marks
from infra.clouds.aws.session import NotThere
from infra.targets.sagemaker import log
from infra.targets.sagemaker.during import Move, Stage, deployment
from infra.targets.sagemaker.verdicts import MOVING, Evidence, restarts
from startup.phases import BootStatus, Phase

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.targets.sagemaker.names import Names

SCRIPT_TAG, CUDA_TAG = "flexserve-script", "flexserve-cuda"
LONGEST_S = 3600.0  # that SageMaker waits for a server to answer
RECENT_S = 900.0  # a build that ended so long before is no part of this boot
MARKS = (
    ("weights", re.compile(r"Starting to load model")),
    ("load", re.compile(r"Time spent downloading weights")),
    ("compile", re.compile(r"Model loading took")),
    ("serving", re.compile(r"init engine \(.*\) took|Application startup complete")),
)
"""What the server says when a phase begins. Weights that are there already it does not download, and says nothing of it: then
they are read within the phase `weights`. Source: vLLM's own loader and engine.
"""
ROLLED = frozenset({"InService", "UpdateRollbackFailed", "Failed"})
"""With a reason: an update failed, and what was there before goes on serving (where it has machines)."""


@dataclass(frozen=True)
class Look:
    """Everything that one look at an endpoint finds. `config`: the one it moves to, or has.

    `move`: what a run does with it, where the look is about one; `config`, `streams` and `lines` are then of that move.
    """

    endpoint: Mapping[str, Any]
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    streams: Sequence[Mapping[str, Any]] = ()
    lines: Sequence[log.Line] = ()
    build: Mapping[str, Any] = field(default_factory=dict)
    move: Move | None = None

    @property
    def status(self) -> str:
        """SageMaker's word for it."""
        return str(self.endpoint.get("EndpointStatus", ""))

    @property
    def variant(self) -> Mapping[str, Any]:
        """The one variant of the configuration."""
        return next(iter(self.config.get("ProductionVariants") or ()), {})

    @property
    def machines(self) -> int:
        """How many machines serve now."""
        return machines_of(self.endpoint)

    @property
    def rolled_back(self) -> bool:
        """Whether its last update failed, whenever that was, and what was there before serves on."""
        serves = self.status == "InService" or self.machines > 0
        return self.status in ROLLED and serves and bool(self.endpoint.get("FailureReason"))

    @property
    def serves(self) -> bool:
        """Whether it answers with the configuration that is looked at: also while it scales, is maintained, or goes back to it."""
        stays = (
            self.status in MOVING
            and self.machines > 0
            and deployment(self.endpoint)[0] in ("", self.endpoint["EndpointConfigName"])
        )
        return self.status == "InService" or self.rolled_back or stays

    @property
    def since(self) -> datetime:
        """When it began to move: its create, or its last update.

        Once it serves, the end of the move is what SageMaker tells; the configuration that it has was made just before the move.
        """
        if self.move is not None and self.move.since is not None:
            return self.move.since
        made: datetime = self.endpoint["CreationTime"]
        if self.status in ("Creating", "Failed") and not self.machines:
            return made.astimezone(UTC)
        if self.serves:
            return max(made, self.config.get("CreationTime") or made).astimezone(UTC)
        at: datetime = self.endpoint["LastModifiedTime"]
        return at.astimezone(UTC)


def machines_of(endpoint: Mapping[str, Any]) -> int:
    """How many machines serve, by SageMaker's description."""
    return sum(int(variant.get("CurrentInstanceCount") or 0) for variant in endpoint.get("ProductionVariants") or ())


def dead(endpoint: Mapping[str, Any]) -> str:
    """Why an endpoint that has no machine never will have one; empty for one that has, or may have. It can only be deleted.

    After a failed update the old machines go on serving: that one is alive, whatever its status is called.
    """
    if str(endpoint.get("EndpointStatus")) != "Failed" or machines_of(endpoint):
        return ""
    return str(endpoint.get("FailureReason") or "SageMaker gives no reason")


def updated(session: Session, endpoint: Mapping[str, Any]) -> bool:
    """Whether it has another configuration than at its create: that one was made before it."""
    try:
        config = session.call("sagemaker", "describe_endpoint_config", EndpointConfigName=endpoint["EndpointConfigName"])
    except NotThere:
        return False
    return bool(config["CreationTime"] > endpoint["CreationTime"])


def describe(session: Session, names: Names) -> dict[str, Any] | None:
    """SageMaker's description of the endpoint; None where there is none."""
    try:
        return session.call("sagemaker", "describe_endpoint", EndpointName=names.base)
    except NotThere:
        return None


def look(session: Session, names: Names, endpoint: Mapping[str, Any], move: Move | None = None) -> Look:
    """The configuration and the log that go with it, or with a run's move. What is not there is empty."""
    name = (move.config if move is not None else "") or deployment(endpoint)[0] or str(endpoint.get("EndpointConfigName", ""))
    config: Mapping[str, Any] = {}
    tags: dict[str, str] = {}
    try:
        config = session.call("sagemaker", "describe_endpoint_config", EndpointConfigName=name)
        tags = tags_of(session, str(config["EndpointConfigArn"]))
    except NotThere:
        pass
    began = Look(endpoint, config, tags, move=move).since.timestamp()
    streams = [
        s for s in log.streams_of(session, names.logs) if s.get("creationTime", 0) / 1000 >= began - 1
    ]  # the group outlives it
    lines = [line for stream in streams for line in log.ends(session, names.logs, str(stream["logStreamName"]))]
    return Look(endpoint, config, tags, streams, sorted(lines, key=lambda line: line.at), build_of(session, names), move)


def tags_of(session: Session, arn: str) -> dict[str, str]:
    """The tags of a thing of SageMaker's."""
    found = session.pages("sagemaker", "list_tags", "Tags", ResourceArn=arn)
    return marks.read(found)


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
    return Evidence(
        status=seen.status,
        reason=str(seen.endpoint.get("FailureReason") or ""),
        since=(now - seen.since).total_seconds(),
        streams=len(seen.streams),
        lines=_told_lines(seen),
        host_image=host,
        host_cuda=row.cuda if row else "",
        host_driver=row.driver if row else "",
        image_cuda=seen.tags.get(CUDA_TAG, ""),
        machine_type=str(seen.variant.get("InstanceType", "")),
        rolled_back=_failed(seen),
    )


def _failed(seen: Look) -> bool:
    """Whether the run that the look is about has failed to change it."""
    return seen.move is not None and seen.move.stage is Stage.FAILED


def _told_lines(seen: Look) -> list[str]:
    """What the container said that the verdict is about: of the machine whose server ended most often, then of the newest one.

    Each machine has a stream of its own, and the same words of two machines are no second start.
    """
    by: dict[str, list[str]] = {}
    for line in seen.lines:
        by.setdefault(line.stream, []).append(line.text)
    began = {str(s["logStreamName"]): int(s.get("creationTime", 0)) for s in seen.streams}
    return by[max(by, key=lambda stream: (restarts(by[stream]), began.get(stream, 0)))] if by else []


def boot(seen: Look, now: datetime, failed: str = "") -> BootStatus:
    """The boot as its phases. `failed`: why it will not serve, where that is known."""
    serves = seen.serves
    steps = _steps(seen)
    began = min(step.at for step in steps)
    phases = []
    for number, step in enumerate(steps):
        until = step.until or (steps[number + 1].at if number + 1 < len(steps) else _ready(seen, step.at))
        result = "done" if until is not None or (serves and not failed) else "failed" if failed else "running"
        phases.append(
            Phase(
                name=step.name,
                start_s=round(step.at - began, 1),
                seconds=round(max(0.0, until - step.at), 1) if until is not None else None,
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


@dataclass(frozen=True)
class _Step:
    """A phase that has begun, and when, in seconds of epoch time. `until`: its end, where it is not the next one's begin."""

    name: str
    at: float
    until: float | None = None


def _ready(seen: Look, began: float) -> float | None:
    """When the newest phase, which began then, ended: the endpoint serves, and nothing has moved it since. None where not told.

    It tells when it moved last, which after a failed update, scaling or maintenance is no end of this boot.
    """
    if seen.status != "InService" or seen.rolled_back or seen.machines > int(seen.variant.get("InitialInstanceCount") or 1):
        return None
    at: datetime = seen.endpoint["LastModifiedTime"]
    return at.timestamp() if at.timestamp() - began <= LONGEST_S else None


def _steps(seen: Look) -> list[_Step]:
    """In order: the image's build, a machine, the container, then what the server says."""
    began = seen.since.timestamp()
    steps = [*_built(seen.build, began), _Step("instance", began)]
    if seen.streams:
        first = min(seen.streams, key=lambda s: s.get("creationTime", 0))
        steps.append(_Step("start", first["creationTime"] / 1000))
        said = [line for line in seen.lines if line.stream == first["logStreamName"]]
        steps += _marked(said if seen.serves else said[::-1], steps[-1].at)
    return steps


def _marked(said: Sequence[log.Line], after: float) -> list[_Step]:
    """What one server says of itself: of one that serves its first start, of one that starts again and again its newest."""
    steps: list[_Step] = []
    for name, mark in MARKS:
        at = next((line.at for line in said if mark.search(line.text)), None)
        if at is not None and at >= after:
            steps.append(_Step(name, at))
            after = at
    return steps


def _built(build: Mapping[str, Any], began: float) -> list[_Step]:
    """The image's build, where it was made for this boot and not for an earlier one."""
    started, ended = build.get("startTime"), build.get("endTime")
    if not isinstance(started, datetime):
        return []
    end = ended.timestamp() if isinstance(ended, datetime) else None
    if started.timestamp() > began or (end is not None and began - end > RECENT_S):
        return []
    return [_Step("image", started.timestamp(), end)]
