"""What EC2 refuses of a RunInstances and moto forgives; the wording is as public reports quote it."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from rehearsal.cloud.aws.call import Call, Json
from rehearsal.cloud.aws.ec2 import bodies, catalogue, spot
from rehearsal.cloud.aws.errors import AwsError, NotModelled
from rehearsal.cloud.aws.state import State

USER_DATA_BYTES = 16384


def user_data(params: Json) -> None:
    """At most 16,384 bytes before base64."""
    try:
        raw = base64.b64decode(params.get("UserData") or "", validate=True)
    except (binascii.Error, ValueError):
        raise AwsError("InvalidParameterValue", "Invalid BASE64 encoding of user data.") from None
    if len(raw) > USER_DATA_BYTES:
        raise AwsError("InvalidParameterValue", f"User data is limited to {USER_DATA_BYTES} bytes")


def architecture(description: Json, image: Any) -> None:
    """The image's must be one of the type's."""
    supported = description.get("ProcessorInfo", {}).get("SupportedArchitectures", [])
    if image.architecture not in supported:
        raise AwsError(
            "InvalidParameterValue",
            f"The architecture '{','.join(supported)}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have matching architectures, "
            "and try again. You can use 'describe-instance-types' or 'describe-images' to discover the architecture of the "
            "instance type or AMI.",
        )


def hibernation(params: Json, description: Json) -> None:
    """No G5g can hibernate, and nothing here does."""
    if not (params.get("HibernationOptions") or {}).get("Configured"):
        return
    if not description.get("HibernationSupported"):
        kind = params.get("InstanceType")
        raise AwsError("UnsupportedHibernationConfiguration", f"Hibernation is not supported for the instance type {kind}.")
    raise NotModelled("hibernation")


def profile(state: State, params: Json) -> None:
    """A profile that EC2 does not see yet is refused like one that is not there."""
    profile = params.get("IamInstanceProfile") or {}
    name, arn = profile.get("Name"), profile.get("Arn")
    known = state.roles.view.profiles
    if name and (name not in known or known[name][1] is None):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
        )
    if arn and not any(a == arn and role is not None for a, role in known.values()):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({arn}) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN",
        )


def is_spot(params: Json) -> bool:
    """Whether a spot instance is asked for."""
    return bool((params.get("InstanceMarketOptions") or {}).get("MarketType") == "spot")


def market(params: Json) -> None:
    """Which market options go together."""
    market = params.get("InstanceMarketOptions") or {}
    options = market.get("SpotOptions") or {}
    if market and market.get("MarketType") != "spot":
        raise NotModelled(f"the market type {market.get('MarketType')}")
    kind, behaviour = options.get("SpotInstanceType", "one-time"), options.get("InstanceInterruptionBehavior", "terminate")
    if kind == "persistent" and behaviour == "terminate" and "InstanceInterruptionBehavior" in options:
        raise AwsError(
            "InvalidParameterCombination",
            "Interruption behavior terminate is not supported for persistent requests made by RunInstances.",
        )
    if kind == "one-time" and behaviour != "terminate":
        raise AwsError(
            "InvalidParameterCombination", f"Interruption behavior {behaviour} is only supported for persistent requests."
        )
    if kind == "one-time" and options.get("ValidUntil"):
        raise AwsError("InvalidParameterCombination", "ValidUntil is only supported for persistent requests.")
    if kind == "persistent" or options.get("BlockDurationMinutes"):
        raise NotModelled("persistent spot requests and blocks of time")


def unsupported(kind: str, zone: str, offered: list[str]) -> AwsError:
    """The zone does not have the type."""
    others = f" or choosing {', '.join(offered)}" if offered else ""
    return AwsError(
        "Unsupported",
        f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}). "
        f"Please retry your request by not specifying an Availability Zone{others}.",
    )


def quota(state: State, kind: str, count: int, *, spot_instance: bool) -> None:
    """VCPUs that run already and those asked for, against the account's quota."""
    quota = next((q for q in state.inventory.quotas if q.covers(kind, spot=spot_instance)), None)
    if quota is None:
        return
    limit = state.quotas[quota.code]
    used = sum(
        catalogue.vcpus(i.instance_type)
        for i in bodies.every(state)
        if i.state in ("pending", "running")
        and quota.covers(i.instance_type, spot=i.lifecycle == "spot")
        and (i.lifecycle == "spot") == spot_instance
    )
    if used + count * catalogue.vcpus(kind) <= limit:
        return
    if spot_instance:
        raise AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise AwsError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows for the instance bucket "
        "that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
        "adjustment to this limit.",
    )


def price(state: State, params: Json, kind: str, zone: str) -> None:
    """The highest price named, against the price now (where it is known)."""
    most = params["InstanceMarketOptions"].get("SpotOptions", {}).get("MaxPrice")
    now = spot.price(state, kind, zone)
    if most is None or now is None:
        return
    try:
        offered = float(most)
    except ValueError:
        raise AwsError("InvalidParameterValue", f"Invalid value '{most}' for MaxPrice.") from None
    if offered < now:
        raise AwsError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {most} is lower than the minimum required Spot request fulfillment price of {now:.4f}.",
        )


def capacity(state: State, call: Call, kind: str, zone: str) -> None:
    """A stock-out that is armed for the zone, or for all of them."""
    armed = next((t for t in state.troubles if t.capacity and t.zone in ("", zone) and t.matches(call)), None)
    if armed is None:
        return
    armed.spend()
    if is_spot(call.params):
        raise AwsError("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.", 500)
    others = [z for z in catalogue.zones_of(state, kind) if z != zone and armed.zone]
    elsewhere = f" or choosing {', '.join(others)}" if others else ""
    raise AwsError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone}). "
        f"Our system will be working on provisioning additional capacity. You can currently get {kind} capacity by not specifying "
        f"an Availability Zone in your request{elsewhere}.",
        500,
    )
