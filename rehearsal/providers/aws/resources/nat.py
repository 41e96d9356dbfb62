"""`ec2.Eip` and `ec2.NatGateway`: the way out for a machine without an address of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.ec2 import REGION, after_create, already_gone, creating, delete, ec2, found, region_of, wait_for
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, created_with, plan_tags, told_tags, update_ec2_tags
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, blocks, items, members, number, out, text, unsent
from rehearsal.providers.values import Values
from rehearsal.providers.waits import TimedOutWaiting, Waiter

EIP: Final[Fields] = {
    "address": unsent(text(None)),
    "allocationId": out(),
    "arn": out(),
    "associateWithPrivateIp": unsent(text(None)),
    "associationId": out(),
    "carrierIp": out(),
    "customerOwnedIp": out(),
    "customerOwnedIpv4Pool": unsent(text()),
    "domain": text(computed=True, replace=True),
    "instance": text(computed=True),
    "ipamPoolId": unsent(text(computed=True, replace=True)),
    "networkBorderGroup": text(computed=True, replace=True),
    "networkInterface": unsent(text(computed=True)),
    "privateDns": out(),
    "privateIp": out(),
    "ptrRecord": out(),
    "publicDns": out(),
    "publicIp": out(),
    "publicIpv4Pool": unsent(text(computed=True, replace=True)),
    **REGION,
    **TAGS,
}

NAT: Final[Fields] = {
    "allocationId": text(replace=True),
    "associationId": out(),
    "autoProvisionZones": out(),
    "autoScalingIps": out(),
    "availabilityMode": unsent(text(computed=True, replace=True)),
    "availabilityZoneAddresses": unsent(blocks({}, zero=None, computed=True)),
    "connectivityType": text(default="public", replace=True),
    "networkInterfaceId": out(),
    "privateIp": text(computed=True, replace=True),
    "publicIp": out(),
    **REGION,
    "regionalNatGatewayAddresses": out(blocks({}, zero=None)),
    "regionalNatGatewayAutoMode": out(),
    "routeTableId": out(),
    "secondaryAllocationIds": unsent(members(computed=True)),
    "secondaryPrivateIpAddressCount": unsent(number(computed=True)),
    "secondaryPrivateIpAddresses": unsent(items(computed=True)),
    "subnetId": text(replace=True),
    **TAGS,
    "vpcId": unsent(text(computed=True, replace=True)),
}


# Eip: its id is the allocation's


def _address(send: Send, identifier: str) -> Values | None:
    return found(send, "DescribeAddresses", "Addresses", AllocationIds=[identifier])


def _create_eip(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = ec2(call, planned)
    asked = {"Domain": planned.get("domain"), "NetworkBorderGroup": planned.get("networkBorderGroup")}
    asked = {key: value for key, value in asked.items() if value}
    made = creating("EC2 EIP", lambda: send("AllocateAddress", **asked, **created_with("elastic-ip", planned)))
    identifier = str(made["AllocationId"])
    if planned.get("instance"):
        send("AssociateAddress", AllocationId=identifier, InstanceId=planned["instance"])
    return identifier, after_create("EC2 EIP", identifier, _read_eip(call, identifier, planned))


def _read_eip(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    address = _address(ec2(call, before), identifier)
    if address is None:
        return None
    return {
        "allocationId": identifier,
        "arn": call.api.arn("ec2", f"elastic-ip/{identifier}", region_of(call, before)),
        "associationId": address.get("AssociationId", ""),
        "domain": address.get("Domain", ""),
        "instance": address.get("InstanceId", ""),
        "networkBorderGroup": address.get("NetworkBorderGroup", ""),
        "networkInterface": address.get("NetworkInterfaceId", ""),
        "privateIp": address.get("PrivateIpAddress", ""),
        "publicIp": address.get("PublicIp", ""),
        "publicIpv4Pool": address.get("PublicIpv4Pool", ""),
        "region": region_of(call, before),
        **told_tags(call.api, address.get("Tags"), before),
    }


def _update_eip(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    if change.touches("instance"):
        if change.state.get("associationId"):
            send("DisassociateAddress", AssociationId=change.state["associationId"])
        if change.planned.get("instance"):
            send("AssociateAddress", AllocationId=identifier, InstanceId=change.planned["instance"])
    update_ec2_tags(send, identifier, change)
    return _read_eip(call, identifier, change.planned) or {}


def _delete_eip(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    if state.get("associationId"):
        already_gone(send, "DisassociateAddress", AssociationId=state["associationId"])
    delete(
        call,
        "EC2 EIP",
        identifier,
        call.timeout,
        lambda: send("ReleaseAddress", AllocationId=identifier),
        ("AuthFailure", ""),
        ("InvalidIPAddress.InUse", ""),
    )


# NatGateway


def _nat(send: Send, identifier: str) -> Values | None:
    there = found(send, "DescribeNatGateways", "NatGateways", NatGatewayIds=[identifier])
    return None if there is None or there.get("State") == "deleted" else there


def _create_nat(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, kind = ec2(call, planned), "EC2 NAT Gateway"
    asked = {
        "AllocationId": planned.get("allocationId"),
        "ConnectivityType": planned.get("connectivityType"),
        "PrivateIpAddress": planned.get("privateIp"),
        "SubnetId": planned.get("subnetId"),
    }
    asked = {key: value for key, value in asked.items() if value}
    made = creating(kind, lambda: send("CreateNatGateway", **asked, **created_with("natgateway", planned)))
    identifier = str(made["NatGateway"]["NatGatewayId"])

    def look() -> tuple[Values | None, str]:
        there = _nat(send, identifier)
        return there, str((there or {}).get("State", ""))

    wait_for(call, kind, identifier, Waiter("available", call.timeout, pending=frozenset({"pending"})), look)
    return identifier, after_create(kind, identifier, _read_nat(call, identifier, planned))


def _read_nat(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    nat = _nat(ec2(call, before), identifier)
    if nat is None:
        return None
    address = (nat.get("NatGatewayAddresses") or [{}])[0]
    return {
        "allocationId": address.get("AllocationId", ""),
        "associationId": address.get("AssociationId", ""),
        "connectivityType": nat.get("ConnectivityType", "public"),
        "networkInterfaceId": address.get("NetworkInterfaceId", ""),
        "privateIp": address.get("PrivateIp", ""),
        "publicIp": address.get("PublicIp", ""),
        "region": region_of(call, before),
        "subnetId": nat.get("SubnetId", ""),
        **told_tags(call.api, nat.get("Tags"), before),
        "vpcId": nat.get("VpcId", ""),
    }


def _update_nat(call: Call[Aws], identifier: str, change: Change) -> Values:
    update_ec2_tags(ec2(call, change.state), identifier, change)
    return _read_nat(call, identifier, change.planned) or {}


def _delete_nat(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send, kind = ec2(call, state), "EC2 NAT Gateway"
    try:
        send("DeleteNatGateway", NatGatewayId=identifier)
    except AwsError as error:
        if error.code.endswith("NotFound"):
            return
        raise ProviderError(f"deleting {kind} ({identifier}): {error}") from error

    def look() -> tuple[Values | None, str]:
        there = _nat(send, identifier)
        return there, str((there or {}).get("State", ""))

    try:
        Waiter("deleted", call.timeout, delay=10.0, floor=10.0).until_gone(look, call.api.sleep)
    except TimedOutWaiting as error:
        raise ProviderError(f"waiting for {kind} ({identifier}) delete: {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:ec2/eip:Eip",
        fields=EIP,
        create=_create_eip,
        read=_read_eip,
        update=_update_eip,
        updates=TAG_MAPS | {"instance"},
        delete=_delete_eip,
        timeouts={"read": 900.0, "update": 300.0, "delete": 180.0},
        check=add_default_tags,
        customize=plan_tags,
    ),
    Resource(
        token="aws:ec2/natGateway:NatGateway",
        fields=NAT,
        create=_create_nat,
        read=_read_nat,
        update=_update_nat,
        updates=TAG_MAPS,
        delete=_delete_nat,
        timeouts={"create": 600.0, "update": 600.0, "delete": 1800.0},
        check=add_default_tags,
        customize=plan_tags,
    ),
]
