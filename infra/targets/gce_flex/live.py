"""The running VM and everything of its deployment, asked over Compute Engine's REST API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from infra.clouds.google import errors
from infra.clouds.google.session import NotThere, Session
from infra.targets.gce_flex.names import ID_LABEL, Names, provisioning, resource_path
from infra.targets.gce_flex.sweep import KINDS, found, location, price
from infra.targets.protocol import Billable, DeploymentRef, Failure, Machine
from startup import phases
from verdict.errors import BadConfig, FlexserveError

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.targets.gce_flex.config import Config

IMAGE_MARK = "/family/"
ENDING = ("STOPPING", "TERMINATED", "SUSPENDED")


def connect(settings: Mapping[str, object]) -> Live:
    """The running side of one stack; `settings`: the stack file's target keys, and over them the stack's outputs."""
    project = str(settings.get("project") or "")
    if not project:
        raise BadConfig("flexserve:target.project: missing")
    listed = settings.get("zones")
    zones = [str(z) for z in listed] if isinstance(listed, list | tuple) else []
    chosen = str(settings.get("zone") or "")
    return Live(Session(), project, tuple(dict.fromkeys(z for z in (chosen, *zones) if z)))


def resolve(key: str, deployment: Deployment, session: Session | None = None) -> str:
    """What an open key means today: the newest image of the host image's family. Raises `BadConfig` when there is none."""
    if key != "target.host_image":
        raise FlexserveError(f"gce_flex cannot resolve {key}")
    config = cast("Config", deployment.target)
    path = resource_path(config.host_image)
    family = config.host_image.rpartition(IMAGE_MARK)[2]
    project = path.get("projects", config.project)
    try:
        image = (session or Session()).call("compute", "GET", f"projects/{project}/global/images/family/{family}")
    except NotThere as error:
        raise BadConfig(
            f"flexserve:target.host_image: {project} has no image family {family!r}", way_out="name another family, or an image"
        ) from error
    return f"projects/{project}/global/images/{image['name']}"


class Live:
    """`LiveTarget` of one project. `zones`: where a create may have been tried; all other questions ask every zone."""

    def __init__(self, session: Session, project: str, zones: Sequence[str]) -> None:
        self._session, self._project, self._zones = session, project, tuple(zones)

    def now(self) -> datetime:
        """The cloud's clock: the date of its last answer."""
        if self._session.date is None:
            self._get(f"projects/{self._project}")
        return self._session.date or datetime.now(UTC)

    def find(self, deployment: DeploymentRef) -> Machine | None:
        """The VM that carries the id; of several the one that is not ending, then the newest."""
        item = self._instance(deployment)
        if item is None:
            return None
        scheduling = item.get("scheduling") or {}
        return Machine(
            name=str(item["name"]),
            where=location(item),
            cloud_state=str(item.get("status", "")),
            created_at=_time(item.get("creationTimestamp")),
            expires_at=_end(item),
            labels=dict(item.get("labels") or {}),
            provisioning=provisioning(str(scheduling.get("provisioningModel", ""))),
        )

    def boot(self, deployment: DeploymentRef) -> phases.BootStatus | None:
        """The phase records that the machine wrote to its guest attributes."""
        path = self._path(deployment)
        try:
            answer = self._get(f"{path}/getGuestAttributes", queryPath=f"{phases.NAMESPACE}/") if path else {}
        except NotThere:  # nothing reported yet, or just gone
            return None
        items = (answer.get("queryValue") or {}).get("items") or []
        return phases.parse({str(i["key"]): str(i.get("value", "")) for i in items})

    def log(self, deployment: DeploymentRef, *, since: int = 0) -> tuple[str, int]:
        """The serial console from an offset in bytes; the cloud keeps the last MiB."""
        path = self._path(deployment)
        try:
            answer = self._get(f"{path}/serialPort", port="1", start=str(since)) if path else {}
        except NotThere:
            answer = {}
        return str(answer.get("contents", "")), int(answer.get("next", since))

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        """Everything of the id, by label or by name, in an order in which it can be deleted. What is free has price 0."""
        names = Names(deployment.id)
        return [
            Billable(kind.name, str(item["name"]), location(item), price(kind, item))
            for kind in KINDS
            for item in found(self._session, self._project, kind, names)
        ]

    def delete(self, thing: Billable) -> None:
        """Delete one thing of `inventory` and wait for it; already gone is success. Raises when the cloud refuses."""
        kind = next(k for k in KINDS if k.name == thing.kind)
        try:
            answer = self._session.call(kind.api, "DELETE", kind.path(self._project, thing.where, thing.name))
            if kind.api == "compute":
                self._session.finish(answer)
        except NotThere:
            return

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        """Why the newest create of the VM failed, from the zones' own operations; None when it worked or was never accepted."""
        mark = f"/instances/{Names(deployment.id).base}"
        tried = [o for zone in self._zones for o in self._inserts(zone) if str(o.get("targetLink", "")).endswith(mark)]
        newest = max(tried, key=lambda o: _time(o.get("insertTime")) or datetime.min.replace(tzinfo=UTC), default={})
        problems = (newest.get("error") or {}).get("errors") or []
        if not problems:
            return None
        first, at = problems[0], _time(newest.get("insertTime"))
        return Failure(str(first.get("code", "")), str(first.get("message", "")), location(newest), at)

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        """What Google's words mean."""
        return errors.explain(text, code)

    def _inserts(self, zone: str) -> Iterator[dict[str, Any]]:
        pages = self._session.pages(
            "compute", f"projects/{self._project}/zones/{zone}/operations", filter='operationType = "insert"'
        )
        try:
            for page in pages:
                yield from page.get("items") or []
        except NotThere:  # a zone that does not exist has no operations
            return

    def _instance(self, deployment: DeploymentRef) -> dict[str, Any] | None:
        items: list[dict[str, Any]] = []
        pages = self._session.pages(
            "compute", f"projects/{self._project}/aggregated/instances", filter=f"labels.{ID_LABEL} = {deployment.id}"
        )
        for page in pages:
            for scope in (page.get("items") or {}).values():
                items.extend(scope.get("instances") or [])
        best: Callable[[dict[str, Any]], tuple[bool, str]] = lambda i: (  # noqa: E731
            i.get("status") not in ENDING,
            str(i.get("creationTimestamp", "")),
        )
        return max(items, key=best, default=None)

    def _path(self, deployment: DeploymentRef) -> str:
        item = self._instance(deployment)
        return f"projects/{self._project}/zones/{location(item)}/instances/{item['name']}" if item else ""

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        return self._session.call("compute", "GET", path, **query)


def _end(item: Mapping[str, Any]) -> datetime | None:
    """When the cloud will delete it: its own word where it gives one, else start and run duration."""
    status = (item.get("resourceStatus") or {}).get("scheduling") or {}
    said = _time(status.get("terminationTimestamp"))
    if said is not None:
        return said
    seconds = ((item.get("scheduling") or {}).get("maxRunDuration") or {}).get("seconds")
    start = _time(item.get("lastStartTimestamp")) or _time(item.get("creationTimestamp"))
    return start + timedelta(seconds=int(seconds)) if start and seconds else None


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)).astimezone(UTC) if text else None
