"""`ec2.RouteTable`, `ec2.RouteTableAssociation`, `ec2.VpcEndpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.documents import same_document, told_document
from rehearsal.providers.aws.ec2 import REGION, after_create, creating, delete, ec2, found, region_of, wait_for
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, created_with, plan_tags, told_tags, update_ec2_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, blocks, flag, items, members, out, text, unsent
from rehearsal.providers.values import Values
from rehearsal.providers.waits import TimedOutWaiting, Waiter

_DESTINATIONS: Final = {
    "cidrBlock": "DestinationCidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
}
_WAYS: Final = {
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
    "transitGatewayId": "TransitGatewayId",
    "vpcEndpointId": "VpcEndpointId",
    "vpcPeeringConnectionId": "VpcPeeringConnectionId",
}
_ROUTE: Final[Fields] = {
    **{key: text() for key in (*_DESTINATIONS, *_WAYS)},
    **{key: unsent(text()) for key in ("carrierGatewayId", "coreNetworkArn", "localGatewayId", "odbNetworkArn")},
}

TABLE: Final[Fields] = {
    "arn": out(),
    "ownerId": out(),
    "propagatingVgws": unsent(members(computed=True)),
    **REGION,
    "routes": blocks(_ROUTE, computed=True, unordered=True),
    **TAGS,
    "vpcId": text(required=True, replace=True),
}

ASSOCIATION: Final[Fields] = {
    "gatewayId": unsent(text(replace=True)),
    **REGION,
    # In place in the official provider, which then has another id; the protocol has no place for that.
    "routeTableId": text(required=True, replace=True),
    "subnetId": text(replace=True),
}

ENDPOINT: Final[Fields] = {
    "arn": out(),
    "autoAccept": unsent(flag(None)),
    "cidrBlocks": out(items(computed=True)),
    "dnsEntries": out(blocks({"dnsName": out(), "hostedZoneId": out()}, zero=None)),
    "dnsOptions": unsent(blocks({}, zero=None, computed=True)),
    "ipAddressType": unsent(text(computed=True)),
    "networkInterfaceIds": out(members()),
    "ownerId": out(),
    "policy": text(computed=True, same=same_document),
    "prefixListId": out(),
    "privateDnsEnabled": unsent(flag(computed=True)),
    **REGION,
    "requesterManaged": out(flag()),
    "resourceConfigurationArn": unsent(text(replace=True)),
    "routeTableIds": members(computed=True),
    "securityGroupIds": unsent(members(computed=True)),
    "serviceName": text(computed=True, replace=True),
    "serviceNetworkArn": unsent(text(replace=True)),
    "serviceRegion": unsent(text(computed=True, replace=True)),
    "state": out(),
    "subnetConfigurations": unsent(blocks({}, zero=None, computed=True)),
    "subnetIds": unsent(members(computed=True)),
    **TAGS,
    "vpcEndpointType": text(default="Gateway", replace=True),
    "vpcId": text(required=True, replace=True),
}


# RouteTable


def _table(send: Send, identifier: str) -> Values | None:
    return found(send, "DescribeRouteTables", "RouteTables", RouteTableIds=[identifier])


def _create_table(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = ec2(call, planned)
    kind = "Route Table"
    made = creating(kind, lambda: send("CreateRouteTable", VpcId=planned["vpcId"], **created_with("route-table", planned)))
    identifier = str(made["RouteTable"]["RouteTableId"])
    try:
        for route in planned.get("routes") or []:
            _add_route(call, send, identifier, route)
    except AwsError as error:
        raise Incomplete(identifier, {}, f"creating Route in Route Table ({identifier}): {error}") from error
    return identifier, after_create(kind, identifier, _read_table(call, identifier, planned))


def _add_route(call: Call[Aws], send: Send, identifier: str, route: Mapping[str, Any]) -> None:
    retry(
        call.api,
        call.timeout,
        lambda: send("CreateRoute", RouteTableId=identifier, **_sent(route)),
        ("InvalidParameterException", ""),
        ("InvalidTransitGatewayID.NotFound", ""),
    )


def _sent(route: Mapping[str, Any]) -> Values:
    return {name: route[key] for key, name in (_DESTINATIONS | _WAYS).items() if route.get(key)}


def _destination(route: Mapping[str, Any]) -> Values:
    return {name: route[key] for key, name in _DESTINATIONS.items() if route.get(key)}


def _read_table(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    table = _table(ec2(call, before), identifier)
    if table is None:
        return None
    routes = [_told(route) for route in table.get("Routes") or [] if _is_shown(route)]
    return {
        "arn": call.api.arn("ec2", f"route-table/{identifier}", region_of(call, before)),
        "ownerId": table.get("OwnerId", ""),
        "propagatingVgws": [item["GatewayId"] for item in table.get("PropagatingVgws") or []] or None,
        "region": region_of(call, before),
        "routes": _in_order(routes, before.get("routes")),
        **told_tags(call.api, table.get("Tags"), before),
        "vpcId": table["VpcId"],
    }


def _is_shown(route: Mapping[str, Any]) -> bool:
    """Not the VPC's own route, nor those that a gateway endpoint or a virtual gateway put there."""
    gateway = str(route.get("GatewayId") or "")
    by_endpoint = gateway.startswith("vpce-") and route.get("DestinationPrefixListId")
    return gateway != "local" and not by_endpoint and route.get("Origin") != "EnableVgwRoutePropagation"


def _told(route: Mapping[str, Any]) -> Values:
    return {key: str(route.get(name) or "") for key, name in (_DESTINATIONS | _WAYS).items()}


def _in_order(routes: list[Values], before: Any) -> list[Values]:
    """The routes of before first, in their order."""
    places = [_destination(route) for route in before] if isinstance(before, list) else []
    return sorted(routes, key=lambda route: places.index(_destination(route)) if _destination(route) in places else len(places))


def _update_table(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    if change.touches("routes"):
        old, new = ([_sent(route) for route in values.get("routes") or []] for values in (change.state, change.planned))
        kept = [_destination(route) for route in change.planned.get("routes") or []]
        try:
            for route in change.state.get("routes") or []:
                if _destination(route) not in kept:
                    send("DeleteRoute", RouteTableId=identifier, **_destination(route))
            for route in change.planned.get("routes") or []:
                if _sent(route) in old:
                    continue
                there = any(_destination(route) == _destination(item) for item in change.state.get("routes") or [])
                if there:
                    send("ReplaceRoute", RouteTableId=identifier, **_sent(route))
                else:
                    _add_route(call, send, identifier, route)
        except AwsError as error:
            raise ProviderError(f"updating Route Table ({identifier}) routes ({len(new)}): {error}") from error
    update_ec2_tags(send, identifier, change)
    return _read_table(call, identifier, change.planned) or {}


def _delete_table(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    table = _table(send, identifier)
    if table is None:
        return
    for association in table.get("Associations") or []:
        if not association.get("Main"):
            _disassociate(call, send, association["RouteTableAssociationId"])
    delete(call, "Route Table", identifier, call.timeout, lambda: send("DeleteRouteTable", RouteTableId=identifier))


# RouteTableAssociation


def _create_association(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, table = ec2(call, planned), planned["routeTableId"]
    try:
        made = retry(
            call.api,
            call.timeout,
            lambda: send("AssociateRouteTable", RouteTableId=table, SubnetId=planned["subnetId"]),
            ("InvalidRouteTableID.NotFound", ""),
        )
    except AwsError as error:
        raise ProviderError(f"creating Route Table ({table}) Association: {error}") from error
    identifier = str(made["AssociationId"])
    told = _read_association(call, identifier, planned)
    return identifier, after_create("Route Table Association", identifier, told)


def _read_association(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    wanted = [{"Name": "association.route-table-association-id", "Values": [identifier]}]
    table = found(ec2(call, before), "DescribeRouteTables", "RouteTables", Filters=wanted)
    for association in (table or {}).get("Associations") or []:
        if association["RouteTableAssociationId"] == identifier:
            return {
                "region": region_of(call, before),
                "routeTableId": association["RouteTableId"],
                "subnetId": association.get("SubnetId", ""),
            }
    return None


def _disassociate(call: Call[Aws], send: Send, identifier: str) -> None:
    delete(
        call,
        "Route Table Association",
        identifier,
        call.timeout,
        lambda: send("DisassociateRouteTable", AssociationId=identifier),
    )


def _delete_association(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    _disassociate(call, ec2(call, state), identifier)


# VpcEndpoint


def _endpoint(send: Send, identifier: str) -> Values | None:
    there = found(send, "DescribeVpcEndpoints", "VpcEndpoints", VpcEndpointIds=[identifier])
    return None if there is None or str(there.get("State", "")).lower() == "deleted" else there


def _create_endpoint(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, kind = ec2(call, planned), "EC2 VPC Endpoint"
    if planned.get("vpcEndpointType") != "Gateway":
        raise ProviderError(f"the stand-in provider makes gateway endpoints only, not {planned.get('vpcEndpointType')}")
    asked: Values = {"PolicyDocument": planned.get("policy"), "RouteTableIds": planned.get("routeTableIds")}
    made = creating(
        kind,
        lambda: send(
            "CreateVpcEndpoint",
            VpcEndpointType="Gateway",
            VpcId=planned["vpcId"],
            ServiceName=planned["serviceName"],
            **{key: value for key, value in asked.items() if value},
            **created_with("vpc-endpoint", planned),
        ),
    )
    identifier = str(made["VpcEndpoint"]["VpcEndpointId"])

    def look() -> tuple[Values | None, str]:
        there = _endpoint(send, identifier)
        return there, str((there or {}).get("State", "")).lower()

    waiter = Waiter("available", call.timeout, delay=5.0, floor=5.0, pending=frozenset({"pending"}))
    wait_for(call, kind, identifier, waiter, look)
    return identifier, after_create(kind, identifier, _read_endpoint(call, identifier, planned))


def _read_endpoint(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = ec2(call, before)
    there = _endpoint(send, identifier)
    if there is None:
        return None
    lists = send("DescribePrefixLists", Filters=[{"Name": "prefix-list-name", "Values": [there["ServiceName"]]}])["PrefixLists"]
    named = [item for item in lists if item["PrefixListName"] == there["ServiceName"]]
    policy = there.get("PolicyDocument")
    return {
        "arn": call.api.arn("ec2", f"vpc-endpoint/{identifier}", region_of(call, before)),
        "cidrBlocks": named[0].get("Cidrs") if named else None,
        "ownerId": there.get("OwnerId", ""),
        "policy": told_document(policy, before.get("policy")) if policy else "",
        "prefixListId": named[0]["PrefixListId"] if named else "",
        "privateDnsEnabled": bool(there.get("PrivateDnsEnabled")),
        "region": region_of(call, before),
        "requesterManaged": bool(there.get("RequesterManaged")),
        "routeTableIds": there.get("RouteTableIds") or None,
        "serviceName": there["ServiceName"],
        "state": str(there.get("State", "")).lower(),
        **told_tags(call.api, there.get("Tags"), before),
        "vpcEndpointType": there.get("VpcEndpointType", "Gateway"),
        "vpcId": there["VpcId"],
    }


def _update_endpoint(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    asked: Values = {}
    if change.touches("routeTableIds"):
        old, new = (set(values.get("routeTableIds") or []) for values in (change.state, change.planned))
        asked = {"AddRouteTableIds": sorted(new - old), "RemoveRouteTableIds": sorted(old - new)}
    if change.touches("policy"):
        policy = change.planned.get("policy")
        asked |= {"PolicyDocument": policy} if policy else {"ResetPolicy": True}
    asked = {key: value for key, value in asked.items() if value}
    if asked:
        send("ModifyVpcEndpoint", VpcEndpointId=identifier, **asked)
    update_ec2_tags(send, identifier, change)
    return _read_endpoint(call, identifier, change.planned) or {}


def _delete_endpoint(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send, kind = ec2(call, state), "EC2 VPC Endpoint"
    delete(call, kind, identifier, call.timeout, lambda: send("DeleteVpcEndpoints", VpcEndpointIds=[identifier]))

    def look() -> tuple[Values | None, str]:
        there = _endpoint(send, identifier)
        return there, str((there or {}).get("State", ""))

    try:
        Waiter("deleted", call.timeout, delay=5.0, floor=5.0).until_gone(look, call.api.sleep)
    except TimedOutWaiting as error:
        raise ProviderError(f"waiting for {kind} ({identifier}) delete: {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:ec2/routeTable:RouteTable",
        fields=TABLE,
        create=_create_table,
        read=_read_table,
        update=_update_table,
        updates=TAG_MAPS | {"routes"},
        delete=_delete_table,
        timeouts={"create": 300.0, "update": 120.0, "delete": 300.0},
        check=add_default_tags,
        customize=plan_tags,
    ),
    Resource(
        token="aws:ec2/routeTableAssociation:RouteTableAssociation",
        fields=ASSOCIATION,
        create=_create_association,
        read=_read_association,
        delete=_delete_association,
        timeouts={"create": 300.0, "update": 120.0, "delete": 300.0},
    ),
    Resource(
        token="aws:ec2/vpcEndpoint:VpcEndpoint",
        fields=ENDPOINT,
        create=_create_endpoint,
        read=_read_endpoint,
        update=_update_endpoint,
        updates=TAG_MAPS | {"policy", "routeTableIds"},
        delete=_delete_endpoint,
        timeouts={"create": 600.0, "update": 600.0, "delete": 600.0},
        check=add_default_tags,
        customize=plan_tags,
    ),
]
