"""Kinds of things that a deployment makes in AWS: how each is found, what it costs an hour, how it is deleted and gone.

A target names its kinds, in the order in which they can be deleted; what several services have in common is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from infra.clouds.aws import errors, marks
from infra.clouds.aws.session import NotThere
from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

W = TypeVar("W")
"""What a target looks by: session, names, and what its outputs tell."""
HOURS_A_MONTH = 730
GIB = 1 << 30
IN_USE_TRIES, IN_USE_S = 12, 5.0  # what the machine's end leaves in use is free within a minute


@dataclass(frozen=True)
class Thing:
    """One thing found. `kept`: why it is left on purpose."""

    id: str
    place: str
    costs: float | None = 0.0
    kept: str = ""


def _at_once(_session: Session, _id: str) -> None:
    """Nothing has to be waited for."""


def _gone(_session: Session, _id: str) -> bool:
    return True


@dataclass(frozen=True)
class Kind(Generic[W]):
    """One kind of thing. `delete` is given the session and the id, and raises `NotThere` for what is gone; so may `after`,
    which tells whether it has gone by now. `before` waits until it can be deleted.
    """

    name: str
    find: Callable[[W], Iterator[Thing]]
    delete: Callable[[Session, str], None]
    after: Callable[[Session, str], bool] = _gone
    before: Callable[[Session, str], None] = _at_once


def inventory(kinds: Sequence[Kind[W]], where: W) -> Iterator[tuple[str, Thing]]:
    """Everything that is there, each with its kind's name, in an order in which it can be deleted. What is free has price 0."""
    return ((kind.name, thing) for kind in kinds for thing in kind.find(where))


def delete(kinds: Sequence[Kind[W]], session: Session, name: str, id_: str) -> None:
    """Delete one thing of the inventory and wait for its end; already gone is success. What is in use is tried for a minute."""
    kind = next(k for k in kinds if k.name == name)
    for attempt in range(IN_USE_TRIES):
        try:
            kind.before(session, id_)
            kind.delete(session, id_)
            session.wait(lambda: kind.after(session, id_), f"the end of {name} {id_}")
            return
        except NotThere:
            return
        except FlexserveError as error:
            used = errors.meaning(error.why)
            if used is None or used.name != "still-used" or attempt == IN_USE_TRIES - 1:
                raise
        session.pause(IN_USE_S)


def calls(service: str, operation: str, name: str, *, many: bool = False) -> Callable[[Session, str], None]:
    """Deleting that is one call with the id, or with a list of one."""

    def one(session: Session, id_: str) -> None:
        session.call(service, operation, **{name: [id_] if many else id_})

    return one


def there(session: Session, service: str, operation: str, id_: str, place: str, **params: str) -> Iterator[Thing]:
    """The thing that a call describes; nothing where it is not there."""
    try:
        session.call(service, operation, **params)
    except NotThere:
        return
    yield Thing(id_, place)


def sizes(session: Session, bucket: str, prefix: str) -> list[tuple[str, int]]:
    """Keys below a prefix, and their bytes; nothing where there is no such bucket."""
    try:
        found = session.pages("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
        return [(str(item["Key"]), int(item.get("Size", 0))) for item in found]
    except NotThere:
        return []


def keys(session: Session, bucket: str, prefix: str) -> list[str]:
    """Keys below a prefix."""
    return [key for key, _ in sizes(session, bucket, prefix)]


def objects(session: Session, buckets: Sequence[str], prefix: str) -> Iterator[Thing]:
    """Objects below a prefix, in whichever of the buckets they are; an id is `BUCKET/KEY`."""
    for bucket in buckets:
        yield from (Thing(f"{bucket}/{key}", session.region) for key in keys(session, bucket, prefix))


def bucket_tags(session: Session, bucket: str) -> dict[str, str]:
    """A bucket's tags; none where it has none, or is not there."""
    try:
        return marks.read(session.call("s3", "get_bucket_tagging", Bucket=bucket).get("TagSet"))
    except FlexserveError:  # NoSuchTagSet, or somebody else's
        return {}


def delete_object(session: Session, id_: str) -> None:
    """One object, by `BUCKET/KEY`."""
    bucket, _, key = id_.partition("/")
    session.call("s3", "delete_object", Bucket=bucket, Key=key)


def delete_bucket(session: Session, id_: str) -> None:
    """A bucket and what is in it."""
    for key in keys(session, id_, ""):
        session.call("s3", "delete_object", Bucket=id_, Key=key)
    session.call("s3", "delete_bucket", Bucket=id_)


def delete_role(session: Session, id_: str) -> None:
    """A role and what it was allowed."""
    for name in session.pages("iam", "list_role_policies", "PolicyNames", RoleName=id_):
        session.call("iam", "delete_role_policy", RoleName=id_, PolicyName=name)
    for policy in session.pages("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=id_):
        session.call("iam", "detach_role_policy", RoleName=id_, PolicyArn=policy["PolicyArn"])
    session.call("iam", "delete_role", RoleName=id_)


def stored(gib: float, item: str, region: str) -> float | None:
    """Dollars an hour for what a service keeps by the month; None where its price is not known."""
    price = listed(item, region)
    return None if price is None else round(gib * price / HOURS_A_MONTH, 6)


def listed(item: str, region: str) -> float | None:
    """The catalog's price of an item, dollars an hour or a month as the row says; None where it is not known."""
    from catalog.loader import Catalog

    found = Catalog.load().price(item, region=region)
    return found.usd if found else None
