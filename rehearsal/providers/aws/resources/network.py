"""`ec2.Vpc`, `ec2.Subnet`, `ec2.InternetGateway`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, Send
from rehearsal.providers.aws.ec2 import (
    REGION,
    after_create,
    creating,
    delete,
    drop_lingering_interfaces,
    ec2,
    found,
    region_of,
    wait_for,
)
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, created_with, plan_tags, told_tags, update_ec2_tags
from rehearsal.providers.resource import Call, Change, Resource
from rehearsal.providers.schema import Fields, flag, number, out, text, unsent
from rehearsal.providers.values import Values
from rehearsal.providers.waits import Waiter

_SETTLE: Final = 300.0  # seconds: for a VPC to become available, and for its last dependents to go

VPC: Final[Fields] = {
    "arn": out(),
    "assignGeneratedIpv6CidrBlock": unsent(flag()),
    "cidrBlock": text(computed=True, replace=True),
    "defaultNetworkAclId": out(),
    "defaultRouteTableId": out(),
    "defaultSecurityGroupId": out(),
    "dhcpOptionsId": out(),
    "enableDnsHostnames": flag(computed=True),
    "enableDnsSupport": flag(default=True),
    "enableNetworkAddressUsageMetrics": unsent(flag(computed=True)),
    "instanceTenancy": text(default="default", replace=True),
    "ipv4IpamPoolId": unsent(text(replace=True)),
    "ipv4NetmaskLength": unsent(number(None, replace=True)),
    "ipv6AssociationId": out(),
    "ipv6CidrBlock": unsent(text(computed=True)),
    "ipv6CidrBlockNetworkBorderGroup": unsent(text(computed=True)),
    "ipv6IpamPoolId": unsent(text()),
    "ipv6NetmaskLength": unsent(number()),
    "mainRouteTableId": out(),
    "ownerId": out(),
    **REGION,
    **TAGS,
}

SUBNET: Final[Fields] = {
    "arn": out(),
    "assignIpv6AddressOnCreation": unsent(flag(default=False)),
    "availabilityZone": text(computed=True, replace=True),
    "availabilityZoneId": text(computed=True, replace=True),
    "cidrBlock": text(computed=True, replace=True),
    "customerOwnedIpv4Pool": unsent(text()),
    "enableDns64": unsent(flag(default=False)),
    "enableLniAtDeviceIndex": unsent(number()),
    "enableResourceNameDnsARecordOnLaunch": unsent(flag(default=False)),
    "enableResourceNameDnsAaaaRecordOnLaunch": unsent(flag(default=False)),
    "ipv4IpamPoolId": unsent(text(replace=True)),
    "ipv4NetmaskLength": unsent(number(None, replace=True)),
    "ipv6CidrBlock": unsent(text()),
    "ipv6CidrBlockAssociationId": out(),
    "ipv6IpamPoolId": unsent(text(replace=True)),
    "ipv6Native": unsent(flag(default=False, replace=True)),
    "ipv6NetmaskLength": unsent(number(None, replace=True)),
    "mapCustomerOwnedIpOnLaunch": unsent(flag()),
    "mapPublicIpOnLaunch": flag(default=False),
    "outpostArn": unsent(text(replace=True)),
    "ownerId": out(),
    "privateDnsHostnameTypeOnLaunch": unsent(text(computed=True)),
    **REGION,
    **TAGS,
    "vpcId": text(required=True, replace=True),
}

GATEWAY: Final[Fields] = {"arn": out(), "ownerId": out(), **REGION, **TAGS, "vpcId": text(computed=True)}


# Vpc


def _vpc(send: Send, identifier: str) -> Values | None:
    return found(send, "DescribeVpcs", "Vpcs", VpcIds=[identifier])


def _create_vpc(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = ec2(call, planned)
    asked = {"InstanceTenancy": planned.get("instanceTenancy"), "CidrBlock": planned.get("cidrBlock")}
    asked = {key: value for key, value in asked.items() if value}
    made = creating("EC2 VPC", lambda: send("CreateVpc", **asked, **created_with("vpc", planned)))["Vpc"]
    identifier = str(made["VpcId"])

    def look() -> tuple[Values | None, str]:
        vpc = _vpc(send, identifier)
        return vpc, str((vpc or {}).get("State", ""))

    waiter = Waiter("available", _SETTLE, pending=frozenset({"pending"}))
    wait_for(call, "EC2 VPC", identifier, waiter, look)
    if planned.get("enableDnsHostnames"):
        _attribute(send, identifier, "EnableDnsHostnames", True)
    if planned.get("enableDnsSupport") is False:
        _attribute(send, identifier, "EnableDnsSupport", False)
    return identifier, after_create("EC2 VPC", identifier, _read_vpc(call, identifier, planned))


def _attribute(send: Send, identifier: str, name: str, value: bool) -> None:
    send("ModifyVpcAttribute", VpcId=identifier, **{name: {"Value": value}})


def _read_vpc(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = ec2(call, before)
    vpc = _vpc(send, identifier)
    if vpc is None:
        return None

    def attribute(name: str) -> bool:
        answer = send("DescribeVpcAttribute", VpcId=identifier, Attribute=name[0].lower() + name[1:])
        return bool((answer.get(name) or {}).get("Value"))

    def default(operation: str, key: str, name: str, *filters: tuple[str, str]) -> str:
        asked = [{"Name": "vpc-id", "Values": [identifier]}, *({"Name": key, "Values": [value]} for key, value in filters)]
        things = send(operation, Filters=asked)[key]
        return str(things[0][name]) if things else ""

    main = default("DescribeRouteTables", "RouteTables", "RouteTableId", ("association.main", "true"))
    return {
        "arn": call.api.arn("ec2", f"vpc/{identifier}", region_of(call, before)),
        "cidrBlock": vpc["CidrBlock"],
        "defaultNetworkAclId": default("DescribeNetworkAcls", "NetworkAcls", "NetworkAclId", ("default", "true")),
        "defaultRouteTableId": main,
        "defaultSecurityGroupId": default("DescribeSecurityGroups", "SecurityGroups", "GroupId", ("group-name", "default")),
        "dhcpOptionsId": vpc.get("DhcpOptionsId", ""),
        "enableDnsHostnames": attribute("EnableDnsHostnames"),
        "enableDnsSupport": attribute("EnableDnsSupport"),
        "instanceTenancy": vpc.get("InstanceTenancy", "default"),
        "mainRouteTableId": main,
        "ownerId": vpc.get("OwnerId", ""),
        "region": region_of(call, before),
        **told_tags(call.api, vpc.get("Tags"), before),
    }


def _update_vpc(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    for key, name in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames")):
        if change.touches(key):
            _attribute(send, identifier, name, bool(change.planned.get(key)))
    update_ec2_tags(send, identifier, change)
    return _read_vpc(call, identifier, change.planned) or {}


def _delete_vpc(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    delete(call, "EC2 VPC", identifier, _SETTLE, lambda: send("DeleteVpc", VpcId=identifier))


# Subnet


def _subnet(send: Send, identifier: str) -> Values | None:
    return found(send, "DescribeSubnets", "Subnets", SubnetIds=[identifier])


def _create_subnet(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = ec2(call, planned)
    asked = {
        "AvailabilityZone": planned.get("availabilityZone"),
        "AvailabilityZoneId": planned.get("availabilityZoneId"),
        "CidrBlock": planned.get("cidrBlock"),
    }
    asked = {key: value for key, value in asked.items() if value}
    made = creating("EC2 Subnet", lambda: send("CreateSubnet", VpcId=planned["vpcId"], **asked, **created_with("subnet", planned)))
    identifier = str(made["Subnet"]["SubnetId"])

    def look() -> tuple[Values | None, str]:
        subnet = _subnet(send, identifier)
        return subnet, str((subnet or {}).get("State", ""))

    wait_for(call, "EC2 Subnet", identifier, Waiter("available", call.timeout, pending=frozenset({"pending"})), look)
    if planned.get("mapPublicIpOnLaunch"):
        send("ModifySubnetAttribute", SubnetId=identifier, MapPublicIpOnLaunch={"Value": True})
    return identifier, after_create("EC2 Subnet", identifier, _read_subnet(call, identifier, planned))


def _read_subnet(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    subnet = _subnet(ec2(call, before), identifier)
    if subnet is None:
        return None
    return {
        "arn": subnet.get("SubnetArn") or call.api.arn("ec2", f"subnet/{identifier}", region_of(call, before)),
        "availabilityZone": subnet["AvailabilityZone"],
        "availabilityZoneId": subnet.get("AvailabilityZoneId", ""),
        "cidrBlock": subnet["CidrBlock"],
        "mapPublicIpOnLaunch": bool(subnet.get("MapPublicIpOnLaunch")),
        "ownerId": subnet.get("OwnerId", ""),
        "region": region_of(call, before),
        **told_tags(call.api, subnet.get("Tags"), before),
        "vpcId": subnet["VpcId"],
    }


def _update_subnet(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    if change.touches("mapPublicIpOnLaunch"):
        value = {"Value": bool(change.planned.get("mapPublicIpOnLaunch"))}
        send("ModifySubnetAttribute", SubnetId=identifier, MapPublicIpOnLaunch=value)
    update_ec2_tags(send, identifier, change)
    return _read_subnet(call, identifier, change.planned) or {}


def _delete_subnet(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    drop_lingering_interfaces(call, send, "subnet-id", identifier)
    delete(call, "EC2 Subnet", identifier, call.timeout, lambda: send("DeleteSubnet", SubnetId=identifier))


# InternetGateway


def _gateway(send: Send, identifier: str) -> Values | None:
    return found(send, "DescribeInternetGateways", "InternetGateways", InternetGatewayIds=[identifier])


def _create_gateway(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = ec2(call, planned)
    kind = "EC2 Internet Gateway"
    made = creating(kind, lambda: send("CreateInternetGateway", **created_with("internet-gateway", planned)))
    identifier = str(made["InternetGateway"]["InternetGatewayId"])
    if planned.get("vpcId"):
        send("AttachInternetGateway", InternetGatewayId=identifier, VpcId=planned["vpcId"])
    return identifier, after_create(kind, identifier, _read_gateway(call, identifier, planned))


def _read_gateway(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    gateway = _gateway(ec2(call, before), identifier)
    if gateway is None:
        return None
    attached = gateway.get("Attachments") or [{}]
    return {
        "arn": call.api.arn("ec2", f"internet-gateway/{identifier}", region_of(call, before)),
        "ownerId": gateway.get("OwnerId", ""),
        "region": region_of(call, before),
        **told_tags(call.api, gateway.get("Tags"), before),
        "vpcId": attached[0].get("VpcId", ""),
    }


def _update_gateway(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    if change.touches("vpcId"):
        if change.state.get("vpcId"):
            _detach(call, send, identifier, change.state["vpcId"])
        if change.planned.get("vpcId"):
            send("AttachInternetGateway", InternetGatewayId=identifier, VpcId=change.planned["vpcId"])
    update_ec2_tags(send, identifier, change)
    return _read_gateway(call, identifier, change.planned) or {}


def _detach(call: Call[Aws], send: Send, identifier: str, vpc: str) -> None:
    """Addresses that are still mapped in the VPC hold it back."""

    def work() -> Values:
        return send("DetachInternetGateway", InternetGatewayId=identifier, VpcId=vpc)

    delete(call, "EC2 Internet Gateway", identifier, call.timeout, work, ("DependencyViolation", ""))


def _delete_gateway(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    if state.get("vpcId"):
        _detach(call, send, identifier, state["vpcId"])
    delete(
        call,
        "EC2 Internet Gateway",
        identifier,
        call.timeout,
        lambda: send("DeleteInternetGateway", InternetGatewayId=identifier),
    )


RESOURCES: Final = [
    Resource(
        token="aws:ec2/vpc:Vpc",
        fields=VPC,
        create=_create_vpc,
        read=_read_vpc,
        update=_update_vpc,
        updates=TAG_MAPS | {"enableDnsHostnames", "enableDnsSupport"},
        delete=_delete_vpc,
        schema_version=1,
        check=add_default_tags,
        customize=plan_tags,
    ),
    Resource(
        token="aws:ec2/subnet:Subnet",
        fields=SUBNET,
        create=_create_subnet,
        read=_read_subnet,
        update=_update_subnet,
        updates=TAG_MAPS | {"mapPublicIpOnLaunch"},
        delete=_delete_subnet,
        timeouts={"create": 600.0, "delete": 1200.0},
        schema_version=1,
        check=add_default_tags,
        customize=plan_tags,
    ),
    Resource(
        token="aws:ec2/internetGateway:InternetGateway",
        fields=GATEWAY,
        create=_create_gateway,
        read=_read_gateway,
        update=_update_gateway,
        updates=TAG_MAPS | {"vpcId"},
        delete=_delete_gateway,
        timeouts={"create": 1200.0, "update": 1200.0, "delete": 1200.0},
        check=add_default_tags,
        customize=plan_tags,
    ),
]
