"""Which deployments a stack has had: told by the tags of what they left, whatever any state knows.

What may be left on purpose carries tags: the endpoint's log, and a repository. So does an endpoint that some other state made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from infra.clouds.aws import marks
from infra.clouds.aws.session import NotThere
from infra.targets.protocol import Billable, DeploymentRef, Life
from infra.targets.sagemaker import sweep
from infra.targets.sagemaker.names import LOGS, Names

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session


def lives(session: Session, stack: str, owner: str, now: Callable[[], datetime]) -> list[Life]:
    """Deployments of this stack and owner of which something is there, and nobody else's. `now` is the time of the last answer."""
    ends: dict[str, datetime | None] = {}
    for tags in _tagged(session):
        if marks.left_by(tags, owner, stack) and tags.get(marks.ID_TAG):
            ends[tags[marks.ID_TAG]] = marks.expiry(tags)
    return [_life(session, DeploymentRef(stack, id_), end, now()) for id_, end in sorted(ends.items())]


def _tagged(session: Session) -> Iterator[Mapping[str, str]]:
    """The tags of each log group, repository and endpoint with a name of ours. What goes meanwhile has none."""
    for item in session.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=f"{LOGS}{marks.PREFIX}"):
        arn = str(item.get("logGroupArn") or item["arn"]).removesuffix(":*")
        yield _told(session, "logs", "list_tags_for_resource", resourceArn=arn)
    for item in session.pages("ecr", "describe_repositories", "repositories"):
        if str(item["repositoryName"]).startswith(marks.PREFIX):
            yield _told(session, "ecr", "list_tags_for_resource", resourceArn=item["repositoryArn"])
    for item in session.pages("sagemaker", "list_endpoints", "Endpoints", NameContains=marks.PREFIX):
        if str(item["EndpointName"]).startswith(marks.PREFIX):
            yield _told(session, "sagemaker", "list_tags", ResourceArn=item["EndpointArn"])


def _told(session: Session, service: str, operation: str, **params: str) -> Mapping[str, str]:
    """CloudWatch answers with a mapping, the others with pairs."""
    try:
        answer = session.call(service, operation, **params)
    except NotThere:
        return {}
    found = answer.get("tags") or answer.get("Tags") or {}
    return found if isinstance(found, Mapping) else marks.read(found)


def _life(session: Session, ref: DeploymentRef, end: datetime | None, now: datetime) -> Life:
    where = sweep.Where(session, Names(ref.id))
    kept = [(kind, thing) for kind, find in sweep.KEPT for thing in find(where) if thing.kept]
    return Life(ref, _going_on(where, end, now), tuple(Billable(kind, t.id, t.place, t.costs, t.kept) for kind, t in kept))


def _going_on(where: sweep.Where, end: datetime | None, now: datetime) -> str:
    """Without an endpoint, and before its window closes, roles tell that somebody makes it just now, or takes it away."""
    if (endpoint := next(sweep.endpoints(where), None)) is not None:
        return f"endpoint {endpoint.id} in {endpoint.place} is there"
    if (end is None or now < end) and (role := next(sweep.roles(where), None)) is not None:
        return f"role {role.id} is there, as while an endpoint is made or deleted"
    return ""
