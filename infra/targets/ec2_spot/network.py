"""A network of our own: one subnetwork in the zone, a way out, a free gateway to S3, and no way in. Pure."""

from __future__ import annotations

import ipaddress
from typing import Any

Args = dict[str, Any]
LETTERS = "abcdefgh"
EVERYWHERE = "0.0.0.0/0"


def vpc(base: str, subnet_range: str, tags: dict[str, str]) -> Args:
    """The network. Names are resolved by AWS's own resolver in it."""
    return {"cidr_block": subnet_range, "enable_dns_support": True, "enable_dns_hostnames": True, "tags": {**tags, "Name": base}}


def subnet(base: str, subnet_range: str, zone: str, vpc_id: object, tags: dict[str, str], *, nat: bool = False) -> Args:
    """The subnetwork of a zone: each zone has a part of the range of its own, so that one may come before another goes.

    The lower half is the machines', the upper half the NAT gateway's.
    """
    network = ipaddress.IPv4Network(subnet_range)
    half = list(network.subnets(1))[1 if nat else 0]
    part = list(half.subnets(3))[LETTERS.index(zone[-1])]
    return {
        "vpc_id": vpc_id,
        "availability_zone": zone,
        "cidr_block": str(part),
        "map_public_ip_on_launch": False,
        "tags": {**tags, "Name": f"{base}-nat" if nat else base},
    }


def internet(base: str, vpc_id: object, tags: dict[str, str]) -> Args:
    """The internet gateway."""
    return {"vpc_id": vpc_id, "tags": {**tags, "Name": base}}


def routes(base: str, vpc_id: object, tags: dict[str, str], *, gateway: object = None, nat: object = None) -> Args:
    """Everything goes out by a gateway, or by a NAT."""
    way = {"gateway_id": gateway} if gateway is not None else {"nat_gateway_id": nat}
    return {"vpc_id": vpc_id, "routes": [{"cidr_block": EVERYWHERE, **way}], "tags": {**tags, "Name": base}}


def address(base: str, tags: dict[str, str]) -> Args:
    """The NAT gateway's address."""
    return {"domain": "vpc", "tags": {**tags, "Name": base}}


def nat(base: str, subnet_id: object, allocation_id: object, tags: dict[str, str]) -> Args:
    """The NAT gateway."""
    return {"subnet_id": subnet_id, "allocation_id": allocation_id, "connectivity_type": "public", "tags": {**tags, "Name": base}}


def s3_endpoint(base: str, region: str, vpc_id: object, route_table_ids: list[object], tags: dict[str, str]) -> Args:
    """S3 without the NAT, and free."""
    return {
        "vpc_id": vpc_id,
        "service_name": f"com.amazonaws.{region}.s3",
        "vpc_endpoint_type": "Gateway",
        "route_table_ids": route_table_ids,
        "tags": {**tags, "Name": base},
    }


def no_way_in(base: str, vpc_id: object, tags: dict[str, str]) -> Args:
    """No ingress at all: the tunnel is a connection that the machine itself opens to Systems Manager.

    Egress is not limited: package mirrors use 80 and 443, and their addresses change.
    """
    return {
        "name": base,
        "description": "flexserve: nothing may enter",
        "vpc_id": vpc_id,
        "ingress": [],
        "egress": [{"protocol": "-1", "from_port": 0, "to_port": 0, "cidr_blocks": [EVERYWHERE], "description": "the way out"}],
        "tags": {**tags, "Name": base},
    }
