"""What has gone wrong with an endpoint, from what can be seen of it: evidence -> the error to end with, or None. Pure.

SageMaker keeps an endpoint in *Creating* for its whole health-check window, up to an hour, while the log has said within minutes
why it will not serve. The order matters: what SageMaker itself says first, then the log, then what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from infra.clouds.aws.errors import said
from infra.targets.sagemaker.config import major
from startup.onboard import causes
from verdict.errors import FlexserveError, NoAccess, NoCapacity, TimedOut

MOVING = frozenset({"Creating", "Updating", "RollingBack", "SystemUpdating"})
RESTARTS = 3  # after so many nothing new is learnt
SILENT_S = 600  # the first log stream was seen after 6.3 minutes
LOST_S = 45 * 60  # no capacity is said after some 30 minutes
TAIL = 12
DIED = re.compile(r"exited: \w+ \((?:exit status|terminated by)|cannot be run:")
DEAD = re.compile(r"gave up: \w+ entered FATAL state|entered FATAL state, exiting")
"""What the supervisor in AWS's container says: once for each end, and when it starts the server no more.
Source: aws/model-hosting-container-standards; supervisord's own words."""
_UNTAKEN = {
    "EventBridge Scheduler": "must allow AWS EventBridge Scheduler to assume the role",
    "CodeBuild": "CodeBuild is not authorized to perform: sts:AssumeRole",
}
"""What the services beside SageMaker say of a role that they cannot take. The provider has asked for two minutes by then."""
_QUOTA = re.compile(r"service limit '(?P<name>(?P<kind>ml\.[\w.-]+) for endpoint usage)' is (?P<limit>\d+)")
_CREATING = re.compile(r"(?P<name>\S+) is still Creating, by an `up` that was cut off")
_TAKEN_BACK = re.compile(r"(?P<name>\S+) still has the configuration (?P<config>\S+): SageMaker took the update back")
_GIVEN_UP = re.compile(r"flexserve: secret \S*: given up: (?P<why>.*)")
_ACCESS = re.compile(r'"(?:GET|POST) /(?:ping|invocations)')
_TIMES = re.compile(r"\d+")


class EndpointFailed(FlexserveError):
    """The endpoint will not serve as it is."""

    kind = "endpoint-failed"


class DriverMismatch(EndpointFailed):
    """The container cannot start on this host image."""

    kind = "driver-mismatch"


class CrashLoop(EndpointFailed):
    """The server starts and ends, again and again."""

    kind = "crash-loop"


class OutOfMemory(EndpointFailed):
    """The accelerator's memory is too small."""

    kind = "out-of-memory"


class StillCreating(EndpointFailed):
    """An endpoint of an earlier `up` is on its way, and the engine knows nothing of it."""

    kind = "endpoint-creating"


class ImageNotPullable(NoAccess):
    """SageMaker cannot have the image."""

    kind = "image-not-pullable"


class RoleNotReady(NoAccess):
    """SageMaker cannot take the execution role."""

    kind = "role-not-ready"


class EndpointQuota(NoAccess):
    """The account may have no more machines of the type for endpoints."""

    kind = "endpoint-quota"


@dataclass(frozen=True)
class Evidence:
    """One look at an endpoint. Times are seconds of the cloud's clock.

    `since`: how long it has been on its way (since its create or last update). `streams`: log streams that began since. `lines`:
    what one of them says, oldest first. `rolled_back`: an update failed, and what was before goes on serving.
    """

    status: str
    reason: str = ""
    since: float = 0.0
    streams: int = 0
    lines: Sequence[str] = ()
    host_image: str = ""
    host_cuda: str = ""
    host_driver: str = ""
    image_cuda: str = ""
    machine_type: str = ""
    rolled_back: bool = False

    @property
    def mismatch(self) -> bool:
        """Whether the host's driver is known not to be for the container's CUDA."""
        return bool(self.image_cuda) and major(self.host_cuda) != major(self.image_cuda) and bool(self.host_image)

    @property
    def restarts(self) -> int:
        """How often the server ended, as far as the log tells."""
        return restarts(self.lines)


def restarts(lines: Sequence[str]) -> int:
    """How often the server of one machine ended: by its supervisor's words, or by its first line coming again."""
    said = [line for line in lines if line.strip() and not _ACCESS.search(line)]
    deaths = sum(1 for line in said if DIED.search(line))
    if any(DEAD.search(line) for line in said):
        deaths = max(deaths, RESTARTS)
    first = _TIMES.sub("0", said[0]) if said else ""
    again = sum(1 for line in said if _TIMES.sub("0", line) == first) - 1 if said else 0
    return max(deaths, again)


def verdict(e: Evidence) -> FlexserveError | None:
    """What it ends with; None while it may still serve."""
    moving = e.status in MOVING
    if e.status == "Failed" or e.rolled_back:
        return _told(e)
    if not moving:
        return None
    if e.reason and e.status == "RollingBack":
        return _told(e)
    return _logged(e) or _missing(e)


def _told(e: Evidence) -> FlexserveError:
    """What SageMaker's own reason means."""
    reason = " ".join(e.reason.split())
    if re.search(
        r"InsufficientInstanceCapacity|InsufficientCapacity|unable to provision requested ML compute", reason, re.IGNORECASE
    ):
        return NoCapacity(
            f"SageMaker has no {e.machine_type or 'machine of this type'} in this region now",
            why=reason,
            way_out="another machine type (target.machine_type), another region, or later",
        )
    if re.search(r"assume|\brole\b", reason, re.IGNORECASE) and not re.search(r"image", reason, re.IGNORECASE):
        return RoleNotReady(
            "SageMaker cannot take the execution role",
            why=reason,
            way_out="try again in a minute: a new role becomes known late; of a role of yours, check whom it trusts",
        )
    if re.search(
        r"pull|images? exist|ImageNotFound|access (them|the image)|Requested image|permission for the image", reason, re.IGNORECASE
    ):
        return ImageNotPullable(
            "SageMaker cannot pull the container's image",
            why=reason,
            way_out="check that the image is still there, in this region, and that the execution role may pull it",
        )
    logged = _logged(e, ended=True)
    if logged is not None:
        return logged
    if "CannotStartContainer" in reason and not e.streams:
        return never_started(e, reason)
    return EndpointFailed(
        "the new machines never served" if e.rolled_back else "the endpoint failed",
        why="\n".join((reason or "SageMaker gives no reason", *_tail(e))),
        way_out="`flexserve logs` shows what the container said",
    )


def still_creating(name: str) -> StillCreating:
    """What the program says before it changes anything beside such an endpoint."""
    return StillCreating(
        f"{name} is still Creating, by an `up` that was cut off",
        why="until it serves or has failed SageMaker neither changes nor deletes it, and the engine cannot take it over",
        way_out="`flexserve down` waits that out and deletes it, then `up` again; one that fails `up` makes anew by itself",
    )


def taken_back(name: str, config: str, why: str = "") -> EndpointFailed:
    """What the program says of an update that came to nothing. `why`: what SageMaker or the container said, if anything."""
    return EndpointFailed(
        f"{name} still has the configuration {config}: SageMaker took the update back",
        why=f"what was there before goes on serving; {why or 'SageMaker gives no reason'}",
        way_out="`flexserve logs` shows what the container said",
    )


def from_words(text: str) -> FlexserveError | None:
    """The same for what the engine prints of an endpoint that failed; None for words about something else."""
    if quota := _QUOTA.search(text):
        return EndpointQuota(
            f"the account may have {quota['limit']} {quota['kind']} for endpoints",
            why=said(text),
            way_out=f"Service Quotas, SageMaker: ask for more of `{quota['name']}`; an update needs as many again while it runs",
        )
    for service, words in _UNTAKEN.items():
        if words in text:
            return RoleNotReady(
                f"{service} cannot take its role",
                why=said(text),
                way_out="try again in a minute: a new role becomes known late",
            )
    if back := _TAKEN_BACK.search(text):
        return taken_back(back["name"], back["config"])
    if creating := _CREATING.search(text):
        return still_creating(creating["name"])
    if re.search(r"Cannot create already existing endpoint|Cannot update failed endpoint", text):
        return EndpointFailed(
            "an endpoint of an `up` that was cut off is still there",
            why=text,
            way_out="`flexserve down`, then `flexserve up` again",
        )
    if re.search(
        r"CannotStartContainer|InsufficientInstanceCapacity.*ML compute|ML compute capacity|Could not assume role|"
        r"Requested image|images? (exist|included)|permission for the image|ping health check",
        text,
    ):
        return _told(Evidence("Failed", reason=text))
    return None


def _logged(e: Evidence, *, ended: bool = False) -> FlexserveError | None:
    """What the container's own words mean. With `ended` any number of restarts is enough."""
    given_up = next((said for line in reversed(e.lines) if (said := _GIVEN_UP.search(line))), None)
    if given_up is not None and (ended or e.restarts >= 1):
        return NoAccess(
            "the container cannot read its secret",
            why=given_up["why"],
            way_out="flexserve secret check NAME says what is missing; a secret made anew has another ARN: `flexserve down`, `up`",
        )
    found = causes.find(e.lines, "load")
    if found is not None and found[0].id == "out-of-memory":
        return OutOfMemory(
            f"the model does not fit on {e.machine_type or 'this machine type'}",
            why="\n".join((_last(e, found[0].pattern), *_tail(e))),
            way_out="a smaller model, or one with 4-bit weights; a shorter serving.max_model_len; a larger machine type",
        )
    if e.restarts < RESTARTS and not (ended and e.restarts):
        return None
    known = f"{found[1]}" if found is not None else causes.last_words(e.lines)
    return CrashLoop(
        f"the server ended {e.restarts} times before it served",
        why="\n".join((known, *_tail(e))),
        way_out="change what its last words complain of; `flexserve logs` shows all of them",
    )


def _missing(e: Evidence) -> FlexserveError | None:
    """What it means that there is no log stream."""
    if e.streams or e.since < SILENT_S:
        return None
    if e.mismatch:
        return never_started(e, "")
    if e.since >= LOST_S:
        return TimedOut(
            f"no container has started for {e.since / 60:.0f} minutes",
            why="there is no log stream: SageMaker has no machine, or the container ends before it can write",
            way_out="see the endpoint's events in the console; another machine type or host image may help",
        )
    return None


def never_started(e: Evidence, reason: str) -> FlexserveError:
    """The container ended before it could write a log: its driver, or its entry point."""
    log = f"there is no log stream after {e.since / 60:.0f} minutes" if e.since >= 60 else ""  # else nobody has looked for one
    if e.mismatch:
        has = f"driver {e.host_driver} for CUDA {e.host_cuda}" if e.host_driver else "no NVIDIA driver"
        return DriverMismatch(
            "the container cannot start on this host image",
            why="; ".join(filter(None, [f"the image has CUDA {e.image_cuda}, {e.host_image} has {has}", log, reason])),
            way_out="set target.host_image to auto",
        )
    return DriverMismatch(
        "the container never started",
        why="; ".join(filter(None, [log and f"{log}, though its group is there", reason])),
        way_out="compare the image's CUDA with the host image's driver (target.host_image), and look at the image's entry point",
    )


def _tail(e: Evidence) -> list[str]:
    said = [line.rstrip() for line in e.lines if line.strip() and not _ACCESS.search(line)]
    return [line[-300:] for line in said[-TAIL:]]


def _last(e: Evidence, pattern: str) -> str:
    return next((line.strip()[-300:] for line in reversed(e.lines) if re.search(pattern, line)), "")
