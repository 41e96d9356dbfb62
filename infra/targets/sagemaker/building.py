"""Makes sure that the endpoint's image is in the repository: looks for its tag, else has CodeBuild build it, and waits.

Called while the engine works (never in a preview), and safe to be called again: a build that runs already is waited for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import ecr
from infra.clouds.aws.session import NotThere
from verdict.errors import FlexserveError, Refused, TimedOut

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

LOOK_S = 3.0
LIMIT_S = 2 * 3600.0  # CodeBuild's own limits, which the project sets, are shorter
TAIL = 12
STARTS, LATE_S = 6, 10.0  # a role that was just made cannot be taken yet
LATE_ROLE = re.compile(
    r"assume|AccessDenied.*(sts|role)|not authorized to perform: (sts:AssumeRole|logs:Create|s3:GetObject)", re.I
)
EARLY = ("SUBMITTED", "QUEUED", "PROVISIONING", "DOWNLOAD_SOURCE")

Say = Callable[[str], None]


class BuildFailed(FlexserveError):
    """CodeBuild did not build the image. `why`: the reason in its first line, the end of the build's log in those that follow."""

    kind = "build-failed"

    def as_dict(self) -> dict[str, object]:
        """The error with the end of the build's log on its own."""
        document = super().as_dict()
        document["error"] = {**document["error"], "log_tail": self.why.partition("\n")[2]}  # type: ignore[dict-item]
        return document


NOT_BUILT = "the endpoint's image was not built"
_TOLD = re.compile(
    rf"(?P<what>{NOT_BUILT}: [^\n]*|the build ended well, but [^\n]*|\S+ has not ended after [\d.]+ h)"
    r"(?:\n  why: (?P<why>.*?))?(?:\n  way out: (?P<way_out>[^\n]*))?\s*\Z",
    re.DOTALL,
)
"""How the errors of this module look when the program raised them and the engine printed them."""


def told(text: str) -> FlexserveError | None:
    """The error of this module that the engine printed; None for other words. A log's lines are not looked at for their meaning."""
    found = _TOLD.search(text)
    if found is None:
        return None
    kind = TimedOut if "has not ended after" in found["what"] else BuildFailed
    return kind(found["what"], why=found["why"] or "", way_out=found["way_out"] or "")


@dataclass(frozen=True)
class Wanted:
    """Which image: the project that builds it, and where it lies then."""

    project: str
    repository: str
    tag: str


def ensure(session: Session, wanted: Wanted, say: Say) -> str:
    """The image's digest. Raises `BuildFailed` with the log's last lines, `Refused` for an image that SageMaker does not take."""
    digest = find(session, wanted)
    if digest:
        return digest
    if running := _running(session, wanted.project):  # of an earlier run: it may be of another image, or of what was mended since
        say(f"{wanted.project} builds an image already; waiting for it")
        _wait(session, running, say)
        if digest := find(session, wanted):
            return digest
        say("that was not this image, or it failed; building this one")
    for attempt in range(STARTS):
        build = _wait(session, _start(session, wanted, say), say)
        if build.get("buildStatus") == "SUCCEEDED":
            break
        if attempt == STARTS - 1 or not _late_role(build):
            if digest := find(session, wanted):  # of a repository that two stacks share: a tag is pushed once
                say("another build has pushed the same image meanwhile")
                return digest
            raise failed(wanted, build, _log(session, build))
        say("the build's role cannot be taken yet; starting it again")
        session.pause(LATE_S)
    digest = find(session, wanted)
    if not digest:
        raise BuildFailed(
            f"the build ended well, but {wanted.repository} has no image {wanted.tag}",
            way_out="somebody may have deleted it: `flexserve up` builds it again",
        )
    return digest


def find(session: Session, wanted: Wanted) -> str:
    """The digest of the tag, or nothing. Raises `Refused` for an image that SageMaker would not take."""
    found = look_up(session, ecr.Repository(wanted.repository), wanted.tag)
    return found.digest if found is not None else ""


def look_up(session: Session, repository: ecr.Repository, reference: str, *, whole: bool = True) -> ecr.Manifest | None:
    """The manifest of a tag or digest, or None. `whole`: it must be what SageMaker takes, else `Refused`."""
    found = ecr.find(session, repository, reference)
    if found is not None and found.problem and whole:
        raise Refused(
            "image-not-a-single-one",
            why=f"{repository.name}{'@' if reference.startswith('sha256:') else ':'}{reference}: {found.problem}",
            way_out="push it again as one image for linux/amd64 with Docker's own manifest: "
            "`docker buildx build --provenance=false --output type=image,oci-mediatypes=false`",
        )
    return found


def failed(wanted: Wanted, build: dict[str, Any], lines: Sequence[str]) -> BuildFailed:
    """Why a build ended: the phase, what it said, and the end of its log."""
    phases = [p for p in build.get("phases") or [] if p.get("phaseStatus") not in (None, "SUCCEEDED")]
    phase = str(phases[0].get("phaseType", "")) if phases else ""
    told = " ".join(str(c.get("message", "")) for p in phases for c in p.get("contexts") or [])
    ours = [line for line in lines if line.startswith("flexserve: ")]
    why = " / ".join(part for part in (ours[-1] if ours else "", told.strip()) if part) or "it says nothing"
    tail = "\n".join(lines[-TAIL:])
    return BuildFailed(
        f"{NOT_BUILT}: {wanted.project} ended in {phase or build.get('buildStatus')}",
        why=f"{why}\n{tail}".strip(),
        way_out="`flexserve up` builds again, once it is mended; nothing of the endpoint was made, `flexserve down` ends the rest",
    )


def _start(session: Session, wanted: Wanted, say: Say) -> dict[str, Any]:
    """Start a build; a role that CodeBuild cannot take yet is waited for."""
    for attempt in range(STARTS):
        try:
            found: dict[str, Any] = session.call("codebuild", "start_build", projectName=wanted.project)["build"]
            return found
        except FlexserveError as error:
            if attempt == STARTS - 1 or not re.search(r"CodeBuild is not authorized", error.why):
                raise
        say("CodeBuild cannot take the build's role yet; asking again")
        session.pause(LATE_S)
    raise AssertionError("unreachable")


def _running(session: Session, project: str) -> dict[str, Any]:
    """The newest build that has not ended, where there is one."""
    try:
        ids = session.call("codebuild", "list_builds_for_project", projectName=project, sortOrder="DESCENDING").get("ids") or []
    except NotThere:
        return {}
    if not ids:
        return {}
    builds = session.call("codebuild", "batch_get_builds", ids=ids[:1]).get("builds") or []
    return next((b for b in builds if b.get("buildStatus") == "IN_PROGRESS"), {})


def _wait(session: Session, build: dict[str, Any], say: Say) -> dict[str, Any]:
    """Look until it has ended; tell each phase once."""
    waited, phase = 0.0, ""
    while waited < LIMIT_S:
        builds = session.call("codebuild", "batch_get_builds", ids=[build["id"]]).get("builds") or []
        build = builds[0] if builds else build
        now = str(build.get("currentPhase") or "")
        if now != phase:
            phase = now
            say(f"image: {now.lower().replace('_', ' ')}")
        if build.get("buildStatus") not in (None, "IN_PROGRESS"):
            return build
        session.pause(LOOK_S)
        waited += LOOK_S
    raise TimedOut(
        f"{build['id']} has not ended after {LIMIT_S / 3600:g} h", way_out="see it in CodeBuild; `flexserve up` waits again"
    )


def _late_role(build: dict[str, Any]) -> bool:
    """Whether it ended before its own steps began, for want of a right that a new role gets late."""
    for phase in build.get("phases") or []:
        if phase.get("phaseStatus") in (None, "SUCCEEDED"):
            continue
        told = " ".join(str(c.get("message", "")) for c in phase.get("contexts") or [])
        return phase.get("phaseType") in EARLY and bool(LATE_ROLE.search(told))
    return False


def _log(session: Session, build: dict[str, Any]) -> list[str]:
    """The end of a build's log; nothing where it has none."""
    logs = build.get("logs") or {}
    group, stream = logs.get("groupName"), logs.get("streamName")
    if not group or not stream:
        return []
    try:
        answer = session.call("logs", "get_log_events", logGroupName=group, logStreamName=stream, limit=200, startFromHead=False)
    except FlexserveError:
        return []
    return [str(e.get("message", "")).rstrip() for e in answer.get("events") or []]
