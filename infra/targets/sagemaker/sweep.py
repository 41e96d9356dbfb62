"""The kinds of things that a deployment makes: how each is found by the id, what it costs an hour, how it is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import marks
from infra.clouds.aws.session import NotThere
from infra.clouds.aws.sweeping import GIB, Kind, Thing, calls, delete_bucket, delete_object, delete_role, objects, stored, there
from infra.targets.sagemaker.names import Names
from infra.targets.sagemaker.rights import VARIANTS
from infra.targets.sagemaker.verdicts import MOVING
from verdict.errors import NoAccess, TimedOut

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

RECENT = 500  # of an account's builds, the newest: ours ends within two hours
MOVES_S, LOOK_S = 80 * 60.0, 5.0  # SageMaker takes an hour at most to give up a start, and 30 minutes to look for a machine


@dataclass(frozen=True)
class Where:
    """Of which deployment things are looked for. `repository`, `bucket`: those that its outputs name, empty when not known."""

    session: Session
    names: Names
    repository: str = ""
    bucket: str = ""

    def ours(self, named: str) -> tuple[str, ...]:
        """Our own name for something, and the one that the outputs tell."""
        return tuple(dict.fromkeys(name for name in (self.names.base, named) if name))


def _schedules(w: Where) -> Iterator[Thing]:
    yield from there(w.session, "scheduler", "get_schedule", w.names.base, w.session.region, Name=w.names.base)


def scalable(session: Session, names: Names) -> list[str]:
    """The endpoint's variant, where it is registered with Application Auto Scaling."""
    found = session.pages(
        "application-autoscaling",
        "describe_scalable_targets",
        "ScalableTargets",
        ServiceNamespace="sagemaker",
        ResourceIds=[names.resource],
    )
    return [str(item["ResourceId"]) for item in found]


def _scaling(w: Where) -> Iterator[Thing]:
    yield from (Thing(name, w.session.region) for name in scalable(w.session, w.names))


def endpoints(w: Where) -> Iterator[Thing]:
    """The endpoint, also while SageMaker deletes it."""
    try:
        found = w.session.call("sagemaker", "describe_endpoint", EndpointName=w.names.base)
    except NotThere:
        return
    yield Thing(w.names.base, w.session.region, _endpoint_price(w, found))


def _configs(w: Where) -> Iterator[Thing]:
    found = w.session.pages("sagemaker", "list_endpoint_configs", "EndpointConfigs", NameContains=w.names.each)
    yield from (Thing(str(item["EndpointConfigName"]), w.session.region) for item in found)


def _models(w: Where) -> Iterator[Thing]:
    found = w.session.pages("sagemaker", "list_models", "Models", NameContains=w.names.each)
    yield from (Thing(str(item["ModelName"]), w.session.region) for item in found)


def _builds(w: Where) -> Iterator[Thing]:
    """Builds that run: they outlive their project, and bill by the minute. Its own list goes with it, so all are asked for."""
    ours = f"{w.names.base}:"
    newest = islice(w.session.pages("codebuild", "list_builds", "ids", sortOrder="DESCENDING"), RECENT)
    if not (ids := [str(id_) for id_ in newest if str(id_).startswith(ours)]):
        return
    for item in w.session.call("codebuild", "batch_get_builds", ids=ids[:100]).get("builds") or []:
        if item.get("buildStatus") == "IN_PROGRESS":
            yield Thing(str(item["id"]), w.session.region, _build_price(w))


def _projects(w: Where) -> Iterator[Thing]:
    found = w.session.call("codebuild", "batch_get_projects", names=[w.names.base]).get("projects") or []
    yield from (Thing(str(item["name"]), w.session.region) for item in found)


def _objects(w: Where) -> Iterator[Thing]:
    """Objects of this deployment, in whichever bucket they are."""
    yield from objects(w.session, w.ours(w.bucket), f"{w.names.id}/")


def _buckets(w: Where) -> Iterator[Thing]:
    yield from there(w.session, "s3", "head_bucket", w.names.base, w.session.region, Bucket=w.names.base)


def _repositories(w: Where) -> Iterator[Thing]:
    """The own repository; one that an earlier deployment made, and this one took over, is ours by flexserve's tag."""
    for name in w.ours(w.repository):
        try:
            found = w.session.call("ecr", "describe_repositories", repositoryNames=[name])["repositories"][0]
        except NotThere:
            continue
        if name != w.names.base:
            answer = w.session.call("ecr", "list_tags_for_resource", resourceArn=found["repositoryArn"])
            if not marks.ours(marks.read(answer.get("tags"))):
                continue
        gib = _gib(w.session, name)
        costs = stored(gib, "ecr-storage", w.session.region)
        yield Thing(name, w.session.region, costs, f"holds {gib:.2f} GiB of built images" if image_ids(w.session, name) else "")


def _log_groups(w: Where) -> Iterator[Thing]:
    """The endpoint's log is kept while there is something in it: it says why. What is in it goes by its retention."""
    for name in (w.names.build_logs, w.names.logs):
        for item in w.session.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name):
            if item["logGroupName"] != name:
                continue
            streams = w.session.call("logs", "describe_log_streams", logGroupName=name, limit=1).get("logStreams")
            days = item.get("retentionInDays")
            kept = f"the endpoint's log, for {days or 'ever'} days" if streams and name == w.names.logs else ""
            yield Thing(name, w.session.region, None if kept else 0.0, kept)  # the catalog has no price for what a log holds


def _budgets(w: Where) -> Iterator[Thing]:
    try:
        account = str(w.session.call("sts", "get_caller_identity")["Account"])
        w.session.call("budgets", "describe_budget", AccountId=account, BudgetName=w.names.base)
    except (NotThere, NoAccess):  # there is none, or who asks may not see budgets, and so has made none
        return
    yield Thing(f"{account}/{w.names.base}", "global")


def roles(w: Where) -> Iterator[Thing]:
    """Those of the endpoint, its build and its clock."""
    for name in (w.names.run, w.names.build, w.names.clock):
        yield from there(w.session, "iam", "get_role", name, "global", RoleName=name)


def image_ids(session: Session, repository: str) -> list[dict[str, Any]]:
    """The images of a repository; none where it is not there."""
    try:
        return [dict(i) for i in session.pages("ecr", "list_images", "imageIds", repositoryName=repository)]
    except NotThere:
        return []


def _gib(session: Session, repository: str) -> float:
    """GiB that a repository's images take, as ECR counts them."""
    found = session.pages("ecr", "describe_images", "imageDetails", repositoryName=repository)
    return float(sum(int(item.get("imageSizeInBytes") or 0) for item in found)) / GIB


def settle(session: Session, name: str) -> None:
    """Wait while SageMaker makes or changes the endpoint: until then it refuses to delete or change it. Raises `TimedOut`."""
    waited = 0.0
    while session.call("sagemaker", "describe_endpoint", EndpointName=name)["EndpointStatus"] in MOVING:
        if waited >= MOVES_S:
            raise TimedOut(f"{name} is still being made after {MOVES_S / 60:.0f} minutes", way_out="`flexserve down` again, later")
        session.pause(LOOK_S)
        waited += LOOK_S


def _no_endpoint(session: Session, name: str) -> bool:
    session.call("sagemaker", "describe_endpoint", EndpointName=name)  # `NotThere` is the end
    return False


def _ended(session: Session, id_: str) -> bool:
    found = session.call("codebuild", "batch_get_builds", ids=[id_]).get("builds") or []
    return all(item.get("buildStatus") != "IN_PROGRESS" for item in found)


def _delete_project(session: Session, id_: str) -> None:
    """CodeBuild deletes what is not there as well."""
    session.call("codebuild", "delete_project", name=id_)


def unscale(session: Session, id_: str) -> None:
    """Take a variant out of scaling, with its policies and their alarms."""
    session.call(
        "application-autoscaling",
        "deregister_scalable_target",
        ServiceNamespace="sagemaker",
        ResourceId=id_,
        ScalableDimension=VARIANTS,
    )


def _delete_repository(session: Session, id_: str) -> None:
    session.call("ecr", "delete_repository", repositoryName=id_, force=True)


def _delete_budget(session: Session, id_: str) -> None:
    account, _, name = id_.partition("/")
    session.call("budgets", "delete_budget", AccountId=account, BudgetName=name)


KINDS = (
    Kind("scaling", _scaling, unscale),
    Kind("endpoint", endpoints, calls("sagemaker", "delete_endpoint", "EndpointName"), _no_endpoint, settle),
    Kind("schedule", _schedules, calls("scheduler", "delete_schedule", "Name")),
    Kind("endpoint-config", _configs, calls("sagemaker", "delete_endpoint_config", "EndpointConfigName")),
    Kind("model", _models, calls("sagemaker", "delete_model", "ModelName")),
    Kind("build", _builds, calls("codebuild", "stop_build", "id"), _ended),
    Kind("build-project", _projects, _delete_project),
    Kind("object", _objects, delete_object),
    Kind("bucket", _buckets, delete_bucket),
    Kind("budget", _budgets, _delete_budget),
    Kind("log-group", _log_groups, calls("logs", "delete_log_group", "logGroupName")),
    Kind("repository", _repositories, _delete_repository),
    Kind("role", roles, delete_role),
)
"""In the order in which they can be deleted: SageMaker needs the role until the endpoint's end, so that goes last. The schedule
goes after the endpoint, which it still ends where the delete fails."""

KEPT = (("log-group", _log_groups), ("repository", _repositories))
"""The kinds of which something may be left on purpose."""


def _build_price(w: Where) -> float | None:
    """CodeBuild's, an hour."""
    from catalog.loader import Catalog

    found = Catalog.load().price("codebuild-general1-large", region=w.session.region)
    return found.usd if found else None


def _endpoint_price(w: Where, endpoint: dict[str, Any]) -> float | None:
    """The machines that it has now, by its configuration's type; one that failed has none."""
    from catalog.loader import Catalog

    if endpoint["EndpointStatus"] == "Failed":
        return 0.0
    try:
        config = w.session.call("sagemaker", "describe_endpoint_config", EndpointConfigName=endpoint["EndpointConfigName"])
    except NotThere:
        return None
    variant = config["ProductionVariants"][0]
    found = Catalog.load().price(str(variant.get("InstanceType")), region=w.session.region, provisioning="on_demand")
    shown = (endpoint.get("ProductionVariants") or [{}])[0]
    count = int(shown.get("CurrentInstanceCount") or shown.get("DesiredInstanceCount") or variant.get("InitialInstanceCount") or 1)
    return found.usd * count if found else None
