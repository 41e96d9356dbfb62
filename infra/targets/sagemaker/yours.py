"""What the stack file names of the operator's own, looked at before anything is made: a wrong role would show after the build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import marks
from infra.clouds.aws.session import NotThere, Session
from infra.targets.sagemaker.resources import OWN, config
from infra.targets.sagemaker.rights import SAGEMAKER
from verdict.errors import BadConfig, NoAccess

if TYPE_CHECKING:
    from infra.settle import Settled
    from infra.targets.sagemaker.config import Config

KEY = "flexserve:target."
Warn = Callable[[str], None]


def look(settled: Settled, warn: Warn) -> None:
    """As the program asks for it, before its first resource."""
    c = config(settled.plan)
    check(c, Session(c.region), warn)


def check(c: Config, session: Session, warn: Warn) -> None:
    """Raises `BadConfig` for what is not there, or cannot be used. What may not be looked at is left to whoever uses it."""
    if c.execution_role != OWN:
        _role(c.execution_role, session, warn)
    if c.image_source != "patched":
        return
    for key, service, call, name, params in (
        ("repository", "ecr", "describe_repositories", c.repository, {"repositoryNames": [c.repository]}),
        ("bucket", "s3", "head_bucket", c.bucket, {"Bucket": c.bucket}),
    ):
        if name == OWN:
            continue
        with _seen(key, warn):
            try:
                found = session.call(service, call, **params)
            except NotThere as error:
                left = name.startswith(marks.PREFIX)  # an earlier deployment's, which this one took over
                way_out = "`flexserve down`, then `up` makes one of its own" if left else "check the name, or write own"
                raise BadConfig(f"{KEY}{key}: {session.region} has no {key} {name} of this account", way_out=way_out) from error
            where = str(found.get("BucketRegion") or session.region)
            if where != session.region:
                raise BadConfig(
                    f"{KEY}{key}: {name} is in {where}, the build in {session.region}",
                    why="CodeBuild reads from a bucket of its own region only",
                    way_out=f"name a bucket in {session.region}, or write own",
                )


@contextmanager
def _seen(key: str, warn: Warn) -> Iterator[None]:
    """What may not be looked at stops nothing, and is said."""
    try:
        yield
    except NoAccess as error:
        warn(f"{KEY}{key} cannot be looked at beforehand: {error.what}{': ' if error.why else ''}{error.why}")


def _role(arn: str, session: Session, warn: Warn) -> None:
    key, account = f"{KEY}execution_role", arn.split(":")[4]
    mine = str(session.call("sts", "get_caller_identity")["Account"])
    if account != mine:
        raise BadConfig(
            f"{key}: is of account {account}, and you are in {mine}",
            why="SageMaker takes a role of the endpoint's account only",
            way_out="name a role of this account, or write own",
        )
    with _seen("execution_role", warn):
        try:
            found = session.call("iam", "get_role", RoleName=arn.rpartition("/")[2])["Role"]
        except NotThere as error:
            raise BadConfig(f"{key}: there is no role {arn}", way_out="check the name, or write own") from error
        if found["Arn"] != arn:  # a role's path is part of its ARN, and not of its name
            raise BadConfig(f"{key}: that role is {found['Arn']}", way_out=f"write {found['Arn']}, or own")
        if not trusts(found.get("AssumeRolePolicyDocument") or {}):
            raise BadConfig(
                f"{key}: the role does not trust {SAGEMAKER}",
                why="SageMaker runs the container with it, and frees the machines",
                way_out=f"allow sts:AssumeRole to the service {SAGEMAKER} in its trust policy, or write own",
            )


def trusts(document: Mapping[str, Any]) -> bool:
    """Whether any statement of a trust policy lets SageMaker in. Conditions and denials are not looked at."""
    statements = document.get("Statement") or []
    for statement in [statements] if isinstance(statements, Mapping) else statements:
        principal = statement.get("Principal") or {}
        named = {"AWS": principal} if isinstance(principal, str) else principal
        lists = [[value] if isinstance(value, str) else value for key, value in named.items() if key in ("Service", "AWS")]
        if statement.get("Effect") == "Allow" and {"*", SAGEMAKER} & {name for names in lists for name in names}:
            return True
    return False
