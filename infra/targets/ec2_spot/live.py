"""The running machine and everything of its deployment, asked over AWS's APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import errors, marks, sweeping
from infra.clouds.aws.session import NotThere, Session, region_of
from infra.targets.ec2_spot import reports, resolving
from infra.targets.ec2_spot.chances import scores
from infra.targets.ec2_spot.names import Names, provisioning
from infra.targets.ec2_spot.sweep import KINDS, Where, instances, zone
from infra.targets.protocol import Billable, DeploymentRef, Failure, Machine
from startup import phases
from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.places import Place

CONSOLE = 1 << 40  # offsets from here on are of the console, below of the boot's own log
ON_PURPOSE = ("Client.UserInitiatedShutdown", "Client.InstanceInitiatedShutdown", "Server.SpotInstance", "Server.ScheduledStop")
ENDS = {
    "Server.SpotInstance": "EC2 took the spot machine back",
    "Client.UserInitiatedShutdown": "somebody terminated it",
    "Client.InstanceInitiatedShutdown": "it turned itself off",
}
"""The beginning of EC2's code for a state -> what it means."""
FAILED = frozenset({"capacity-not-available", "price-too-low", "bad-parameters", "constraint-not-fulfillable", "system-error"})


def connect(settings: Mapping[str, object]) -> Live:
    """The running side of one stack; `settings`: the stack file's target keys, and over them the stack's outputs."""
    bucket = str(settings.get("bucket") or "")
    asks = settings.get("placement_scores") is not False
    return Live(Session(region_of(settings.get("region"))), "" if bucket == "own" else bucket, scores=asks)


def resolve(key: str, deployment: Deployment, session: Session | None = None) -> str:
    """What an open key means today: the host image, checked, or the bucket that an earlier deployment left its builds in."""
    found: str = resolving.resolve(key, deployment, session or Session(str(deployment.target.region_of(""))))
    return found


class Live:
    """`LiveTarget` of one region. `bucket`: of script and builds, where that is known. `scores`: whether EC2 is asked for them."""

    def __init__(self, session: Session, bucket: str = "", *, scores: bool = True) -> None:
        self._session, self._bucket, self._scores = session, bucket, scores

    def now(self) -> datetime:
        """The cloud's clock: the date of its last answer."""
        if self._session.date is None:
            self._session.call("ec2", "describe_regions", RegionNames=[self._session.region])
        return self._session.date or datetime.now(UTC)

    def find(self, deployment: DeploymentRef) -> Machine | None:
        """The machine that carries the id; of several the one that is not ending, then the newest."""
        item = self._instance(deployment)
        if item is None:
            return None
        labels = marks.read(item.get("Tags"))
        state = str(item["State"]["Name"])
        return Machine(
            name=labels.get("Name", Names(deployment.id).base),
            where=zone(item, self._session),
            cloud_state="starting" if state == "pending" else state,  # granted already: nothing is queued
            created_at=_utc(item.get("LaunchTime")),
            expires_at=marks.expiry(labels),
            labels=labels,
            provisioning=provisioning(item.get("InstanceLifecycle")),
        )

    def boot(self, deployment: DeploymentRef) -> phases.BootStatus | None:
        """The phase records that the machine wrote to its disk. None while Systems Manager does not reach it."""
        item = self._instance(deployment)
        said = reports.documents(self._session, item["InstanceId"]) if item and item["State"]["Name"] == "running" else None
        return phases.parse(said) if said else None

    def log(self, deployment: DeploymentRef, *, since: int = 0) -> tuple[str, int]:
        """The boot's and the server's log; before the machine can be asked, its console. Offsets tell the two apart."""
        item = self._instance(deployment)
        if item is None:
            return "", since
        at = since if since < CONSOLE else 0
        told = reports.log(self._session, item["InstanceId"], at)
        if told is not None and (told[0] or since < CONSOLE):
            return told
        return self._console(item["InstanceId"], since) if since == 0 or since >= CONSOLE else ("", since)

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        """Everything of the id, by tag or by name, in an order in which it can be deleted. What is free has price 0."""
        where = self._where(deployment)
        return [Billable(kind, t.id, t.place, t.costs, t.kept) for kind, t in sweeping.inventory(KINDS, where)]

    def delete(self, thing: Billable) -> None:
        """Delete one thing of `inventory` and wait for it; already gone is success. What is in use is tried again for a minute."""
        sweeping.delete(KINDS, self._session, thing.kind, thing.name)

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        """Why the newest machine never ran, by EC2's own record of it. A request that EC2 refuses at once leaves none."""
        where = self._where(deployment)
        newest = max(instances(where, also_gone=True), key=lambda i: str(i.get("LaunchTime", "")), default=None)
        if newest is not None:
            reason = newest.get("StateReason") or {}
            code = str(reason.get("Code", ""))
            ended = newest["State"]["Name"] == "terminated" and code and not code.startswith(ON_PURPOSE)
            at = _utc(newest.get("LaunchTime"))
            return Failure(code, str(reason.get("Message", "")), zone(newest, self._session), at) if ended else None
        asked = self._session.pages("ec2", "describe_spot_instance_requests", "SpotInstanceRequests", Filters=where.tagged)
        refused = [item for item in asked if (item.get("Status") or {}).get("Code") in FAILED]
        item = max(refused, key=lambda i: str(i.get("CreateTime", "")), default=None)
        if item is None:
            return None
        placed = (item.get("LaunchSpecification") or {}).get("Placement") or {}
        place = str(placed.get("AvailabilityZone") or self._session.region)
        return Failure(str(item["Status"]["Code"]), str(item["Status"].get("Message", "")), place, _utc(item.get("CreateTime")))

    def ended(self, deployment: DeploymentRef) -> str:
        """Why the newest machine has gone, by EC2's record, which it keeps for an hour."""
        gone = instances(self._where(deployment), also_gone=True)
        newest = max(gone, key=lambda i: str(i.get("LaunchTime", "")), default={})
        code = str((newest.get("StateReason") or {}).get("Code", ""))
        return next((words for start, words in ENDS.items() if code.startswith(start)), "")

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        """What AWS's words mean."""
        return errors.explain(text, code)

    def chances(self, places: Sequence[Place]) -> Mapping[str, int]:
        """Spot placement scores, 1 to 10; none where the stack file says not to ask."""
        return scores(self._session, places) if self._scores else {}

    def _console(self, instance_id: str, since: int) -> tuple[str, int]:
        """The console from an offset; the cloud keeps the last 64 KiB."""
        try:
            answer = self._session.call("ec2", "get_console_output", InstanceId=instance_id, Latest=True)
        except NotThere:
            return "", since
        text = str(answer.get("Output") or "")
        at = since - CONSOLE if since >= CONSOLE else 0
        return (text[at:], CONSOLE + max(at, len(text))) if text else ("", since)

    def _where(self, deployment: DeploymentRef) -> Where:
        return Where(self._session, Names(deployment.id), self._bucket)

    def _instance(self, deployment: DeploymentRef) -> dict[str, Any] | None:
        found = instances(self._where(deployment))
        return max(found, key=lambda i: (i["State"]["Name"] in ("pending", "running"), str(i.get("LaunchTime", ""))), default=None)


def _utc(value: object) -> datetime | None:
    return value.astimezone(UTC) if isinstance(value, datetime) else None
