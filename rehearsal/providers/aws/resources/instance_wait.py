"""Waits for an instance's state, and single attributes of it."""

from __future__ import annotations

from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.resources.instance_told import find, state_of
from rehearsal.providers.resource import Call, ProviderError
from rehearsal.providers.values import Values
from rehearsal.providers.waits import NeverSeen, TimedOutWaiting, UnexpectedState, Waiter

IAM_PROPAGATION: Final = 120.0  # seconds until EC2 knows a new instance profile
DELAY: Final = 10.0  # seconds before the first look at an instance
FLOOR: Final = 3.0  # seconds between two looks, at least
LATE_IAM: Final = (
    ("InvalidParameterValue", "Invalid IAM Instance Profile"),
    ("InvalidParameterValue", " has no associated IAM Roles"),
)


def await_state(call: Call[Aws], send: Send, identifier: str, waiter: Waiter, doing: str = "create") -> None:
    """Wait for a state. Raises `ProviderError` with the cause that AWS gives for another one."""

    def look() -> tuple[Values | None, str]:
        instance = find(send, identifier)
        return instance, state_of(instance)

    try:
        waiter.wait(look, call.api.sleep)
    except UnexpectedState as error:
        reason = ((find(send, identifier) or {}).get("StateReason") or {}).get("Message") or "%!s(<nil>)"
        raise ProviderError(f"waiting for EC2 Instance ({identifier}) {doing}: {error}. last error: {reason}") from error
    except (NeverSeen, TimedOutWaiting) as error:
        raise ProviderError(f"waiting for EC2 Instance ({identifier}) {doing}: {error}") from error


def modify(send: Send, identifier: str, **attribute: Any) -> None:
    """Change one attribute: `modify(send, "i-1", SourceDestCheck={"Value": False})`."""
    try:
        send("ModifyInstanceAttribute", InstanceId=identifier, **attribute)
    except AwsError as error:
        raise ProviderError(f"updating EC2 Instance ({identifier}): modifying {next(iter(attribute))}: {error}") from error
