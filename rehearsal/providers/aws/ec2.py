"""What the EC2 resources share: one thing by its id, waits for its state, deletes that depend on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.resource import Call, Incomplete, ProviderError
from rehearsal.providers.schema import Prop, text
from rehearsal.providers.values import Values
from rehearsal.providers.waits import NeverSeen, TimedOutWaiting, UnexpectedState, Waiter

REGION: Final[Mapping[str, Prop]] = {"region": text(computed=True, replace=True)}
IN_USE: Final = ("DependencyViolation", "")


def ec2(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    """EC2 in the resource's own region."""
    return call.api.service("ec2", values.get("region"))


def region_of(call: Call[Aws], values: Mapping[str, Any]) -> str:
    """The resource's own region, or the stack's."""
    return str(values.get("region") or call.api.config.region)


def found(send: Send, operation: str, key: str, **parameters: Any) -> Values | None:
    """The first of what a describe request gives, or None: an empty answer, or a code that ends in NotFound."""
    try:
        things = send(operation, **parameters)[key]
    except AwsError as error:
        if error.code.endswith("NotFound"):
            return None
        raise
    return things[0] if things else None


def already_gone(send: Send, operation: str, **parameters: Any) -> None:
    """A request to take something away; nothing there is success."""
    try:
        send(operation, **parameters)
    except AwsError as error:
        if not error.code.endswith("NotFound"):
            raise


def after_create(kind: str, identifier: str, told: Values | None) -> Values:
    """What a first read tells; a thing that is not there is kept as an incomplete one."""
    if told is None:
        raise Incomplete(identifier, {}, f"reading {kind} ({identifier}): couldn't find resource")
    return told


def creating(kind: str, work: Callable[[], Values]) -> Values:
    """A create request, with the official provider's words around its error."""
    try:
        return work()
    except AwsError as error:
        raise ProviderError(f"creating {kind}: {error}") from error


def wait_for(call: Call[Aws], kind: str, identifier: str, waiter: Waiter, look: Callable[[], tuple[Any, str]]) -> None:
    """Wait for a created thing's state. A wait that fails leaves the thing in the state, as not initialised."""
    try:
        waiter.wait(look, call.api.sleep)
    except (NeverSeen, TimedOutWaiting, UnexpectedState) as error:
        raise Incomplete(identifier, {}, f"waiting for {kind} ({identifier}) create: {error}") from error


def delete(call: Call[Aws], kind: str, identifier: str, seconds: float, work: Callable[[], Any], *again: tuple[str, str]) -> None:
    """A delete that is tried again while others still depend on the thing; nothing there is success."""
    try:
        retry(call.api, seconds, work, *(again or (IN_USE,)))
    except AwsError as error:
        if not error.code.endswith("NotFound"):
            raise ProviderError(f"deleting {kind} ({identifier}): {error}") from error


def drop_lingering_interfaces(call: Call[Aws], send: Send, filter_name: str, identifier: str) -> None:
    """Remove network interfaces that nothing is attached to and that stand in the way of a delete."""
    filters = [{"Name": filter_name, "Values": [identifier]}, {"Name": "status", "Values": ["available"]}]
    for interface in send("DescribeNetworkInterfaces", Filters=filters)["NetworkInterfaces"]:
        already_gone(send, "DeleteNetworkInterface", NetworkInterfaceId=interface["NetworkInterfaceId"])
