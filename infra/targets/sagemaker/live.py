"""The running endpoint and everything of its deployment, asked over AWS's APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import errors, marks, sweeping
from infra.clouds.aws.session import Session, region_of
from infra.kept import FACTS
from infra.targets.protocol import Billable, DeploymentRef, Failure, Life, Machine
from infra.targets.sagemaker import building, moving, recall, reports, resolving, verdicts
from infra.targets.sagemaker.during import Move, Stage
from infra.targets.sagemaker.log import Reader
from infra.targets.sagemaker.names import Names
from infra.targets.sagemaker.sweep import KINDS, Where, endpoints
from infra.targets.sagemaker.watching import UNMADE, Watching
from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.image_facts import ImageFacts
    from startup.phases import BootStatus

RESOLVES = frozenset({"image", FACTS})
"""Keys of all targets that this one resolves itself: AWS's registry wants a login."""
STATES = {"Deleting": "stopping", "OutOfService": "stopped"}
"""SageMaker's words in those that everybody else uses."""


def connect(settings: Mapping[str, object]) -> Live:
    """The running side of one stack; `settings`: the stack file's target keys, and over them the stack's outputs."""
    known = {key: str(settings.get(key) or "") for key in ("repository", "bucket")}
    named = {key: "" if value == "own" else value for key, value in known.items()}
    session = Session(region_of(settings.get("region")), account=str(settings.get("account") or ""))
    return Live(session, named["repository"], named["bucket"])


def resolve(key: str, deployment: Deployment, session: Session | None = None) -> str:
    """What an open key means today: the image's digest, the secret's ARN, the repository that an earlier deployment left."""
    return resolving.resolve(key, deployment, session or Session(str(deployment.target.region_of(deployment.target.places[0]))))


def read_image(deployment: Deployment, session: Session | None = None) -> ImageFacts:
    """What the stack's image says of itself. Raises `BadConfig`, `Refused`, `NoAccess`, `NoNetwork`, `CannotTell`."""
    return resolving.read(deployment, session or Session(str(deployment.target.region_of(deployment.target.places[0]))))


class Live:
    """`LiveTarget` of one region. `repository` and `bucket`: where image and build files are, where that is known."""

    def __init__(self, session: Session, repository: str = "", bucket: str = "") -> None:
        self._session, self._repository, self._bucket = session, repository, bucket
        self._readers: dict[str, Reader] = {}

    def now(self) -> datetime:
        """The cloud's clock: the date of its last answer."""
        if self._session.date is None:
            self._session.call("sagemaker", "list_endpoints", MaxResults=1)
        return self._session.date or datetime.now(UTC)

    def find(self, deployment: DeploymentRef) -> Machine | None:
        """The endpoint that carries the id."""
        found = reports.describe(self._session, Names(deployment.id))
        if found is None:
            return None
        labels = reports.tags_of(self._session, str(found["EndpointArn"]))
        status = str(found["EndpointStatus"])
        return Machine(
            name=str(found["EndpointName"]),
            where=self._session.region,
            cloud_state=STATES.get(status, status.lower()),
            created_at=found["CreationTime"].astimezone(UTC),
            expires_at=marks.expiry(labels),
            labels=labels,
            updated=reports.updated(self._session, found),
            dead=reports.dead(found),
            provisioning="on_demand",
        )

    def boot(self, deployment: DeploymentRef) -> BootStatus | None:
        """The phases, read off SageMaker's description and the server's log. None without an endpoint."""
        seen = self._look(deployment)
        if seen is None or seen.status in STATES:
            return None
        failed = None if seen.serves else verdicts.verdict(reports.evidence(seen, self.now()))
        return reports.boot(seen, self.now(), f"{failed.what}: {failed.why}" if failed else "")

    def watch(self, deployment: DeploymentRef, *, new: bool = False) -> Watching:
        """Look at one run, from now on."""
        return Watching(self._session, Names(deployment.id), self.now, new=new)

    def hopeless(self, deployment: DeploymentRef) -> FlexserveError | None:
        """Why an endpoint that is being made, or never was, will not serve: all of its life is evidence."""
        seen = self._look(deployment)
        if seen is None or seen.status not in UNMADE or seen.machines:
            return None
        return verdicts.verdict(reports.evidence(seen, self.now()))

    def went_back(self, deployment: DeploymentRef, wanted: str, since: datetime) -> FlexserveError | None:
        """Why an update to the configuration `wanted` came to nothing, by what has happened since shortly before it."""
        seen = self._look(deployment, Move(Stage.FAILED, wanted, since))
        return verdicts.verdict(reports.evidence(seen, self.now())) if seen is not None else None

    def held(self, deployment: DeploymentRef) -> str:
        """Whether SageMaker still makes or changes the endpoint, which it deletes only then."""
        found = reports.describe(self._session, Names(deployment.id))
        moving = found is not None and found["EndpointStatus"] in verdicts.MOVING
        return f"{found['EndpointName']} is {found['EndpointStatus']}" if found is not None and moving else ""

    def holder(self, deployment: DeploymentRef) -> Billable | None:
        """The endpoint: SageMaker frees with the role what it is made of (botocore: DeleteEndpoint)."""
        found = next(endpoints(Where(self._session, Names(deployment.id))), None)
        return Billable("endpoint", found.id, found.place, found.costs) if found is not None else None

    def lives(self, stack: str, owner: str) -> Sequence[Life]:
        """The deployments of a stack, by the tags of their logs, repositories and endpoints."""
        return recall.lives(self._session, stack, owner, self.now)

    def serving(self, deployment: DeploymentRef) -> moving.Serving | None:
        """The endpoint as a change has to know it."""
        return moving.serving(self._session, Names(deployment.id))

    def make_ready(self, deployment: DeploymentRef, machine_type: str) -> None:
        """Return when SageMaker takes an update to this machine type."""
        moving.make_ready(self._session, Names(deployment.id), machine_type)

    def log(self, deployment: DeploymentRef, *, since: int = 0) -> tuple[str, int]:
        """The containers' log, all streams in the order of time. The offset counts lines.

        This object remembers how far each stream was read: going on from the last offset reads only what is new.
        """
        names = Names(deployment.id)
        reader = self._readers.get(names.logs)
        if reader is None or reader.told != since:
            reader = self._readers[names.logs] = Reader(self._session, names.logs)
            reader.skip(since)
        lines = reader.piece() if reader.told == since else []
        return ("\n".join(lines) + "\n", reader.told) if lines else ("", since)

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        """Everything of the id, by tag or by name, in an order in which it can be deleted. What is free has price 0."""
        where = Where(self._session, Names(deployment.id), self._repository, self._bucket)
        return [Billable(kind, t.id, t.place, t.costs, t.kept) for kind, t in sweeping.inventory(KINDS, where)]

    def delete(self, thing: Billable) -> None:
        """Delete one thing of `inventory` and wait for it; already gone is success. An endpoint on its way is waited out."""
        sweeping.delete(KINDS, self._session, thing.kind, thing.name)

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        """Why the endpoint never served, by SageMaker's own word. A request that it refuses at once leaves none."""
        found = reports.describe(self._session, Names(deployment.id))
        if found is None or found["EndpointStatus"] != "Failed":
            return None
        reason = str(found.get("FailureReason") or "")
        code = "InsufficientInstanceCapacity" if "InsufficientInstanceCapacity" in reason else ""
        return Failure(code, reason, self._session.region, found["LastModifiedTime"].astimezone(UTC))

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        """What AWS's words mean."""
        return building.told(text) or verdicts.from_words(text) or errors.explain(text, code)

    def _look(self, deployment: DeploymentRef, move: Move | None = None) -> reports.Look | None:
        names = Names(deployment.id)
        found: dict[str, Any] | None = reports.describe(self._session, names)
        return reports.look(self._session, names, found, move) if found is not None else None
