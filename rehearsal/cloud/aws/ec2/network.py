"""What a network lets through, and what cannot go while something hangs on it."""

from __future__ import annotations

from typing import Any

from rehearsal.cloud.aws.call import Call, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.state import State


def open_default(state: State) -> None:
    """Give the default network the gateway and the route that AWS's has, and moto's lacks. Called under the lock."""
    with state.moto.at_its_time():
        vpc = state.ec2.default_vpc
        gateway = state.ec2.create_internet_gateway()
        state.ec2.attach_internet_gateway(gateway.id, vpc.id)
        main = next(t for t in state.ec2.route_tables.values() if t.vpc_id == vpc.id and t.main_association_id is not None)
        state.ec2.create_route(main.id, "0.0.0.0/0", None, gateway_id=gateway.id)


def table_of(state: State, subnet: Any) -> Any | None:
    """The subnet's route table: its own, else the network's main one."""
    tables = [t for t in state.ec2.route_tables.values() if t.vpc_id == subnet.vpc_id]
    own = next((t for t in tables if subnet.id in t._associations.values()), None)
    return own or next((t for t in tables if t.main_association_id is not None), None)


def egress(state: State, instance: Any) -> bool:
    """Whether it reaches the internet: a public address and a route to an internet gateway, or a route to a NAT gateway."""
    subnet = state.ec2.get_subnet(instance.subnet_id)
    table = table_of(state, subnet)
    for route in table.routes if table is not None else ():
        if route.destination_cidr_block != "0.0.0.0/0":
            continue
        if route.nat_gateway is not None:
            return True
        if route.gateway is not None and str(route.gateway.id).startswith("igw-"):
            return bool(instance.public_ip_address)
    return False


def s3_endpoint(state: State, instance: Any) -> bool:
    """Whether it reaches S3 without the internet: a gateway endpoint in its route table."""
    subnet = state.ec2.get_subnet(instance.subnet_id)
    table = table_of(state, subnet)
    return any(
        table is not None
        and end.service_name.endswith(".s3")
        and (end.vpc_endpoint_type or "Gateway") == "Gateway"
        and table.id in (end.route_table_ids or [])
        for end in state.ec2.vpc_end_points.values()
    )


def _interfaces(state: State) -> list[Any]:
    return [eni for eni in state.ec2.enis.values() if eni.instance is not None]


def delete_security_group(state: State, call: Call) -> Result:
    """Not while an interface or another group's rule names it; moto lets it go."""
    group = call.params.get("GroupId")
    used = any(g.id == group for eni in _interfaces(state) for g in eni.group_set)
    if group and used:
        raise AwsError("DependencyViolation", f"resource {group} has a dependent object")
    return call.moto(None)


def delete_subnet(state: State, call: Call) -> Result:
    """Not while an interface is in it."""
    subnet = call.params["SubnetId"]
    if any(eni.subnet.id == subnet for eni in _interfaces(state)):
        raise AwsError("DependencyViolation", f"The subnet '{subnet}' has dependencies and cannot be deleted.")
    return call.moto(None)


def detach_gateway(state: State, call: Call) -> Result:
    """Not while something in the network has a public address."""
    vpc = call.params["VpcId"]
    if any(eni.subnet.vpc_id == vpc and eni.public_ip for eni in _interfaces(state)):
        raise AwsError(
            "DependencyViolation",
            f"Network {vpc} has some mapped public address(es). Please unmap those public address(es) before detaching the "
            "gateway.",
        )
    return call.moto(None)


def delete_vpc(state: State, call: Call) -> Result:
    """Not while a gateway, an endpoint or a group of its own is in it."""
    vpc = call.params["VpcId"]
    groups = [g for g in state.ec2.groups.get(vpc, {}).values() if g.name != "default"]
    gateways = [g for g in state.ec2.internet_gateways.values() if g.vpc is not None and g.vpc.id == vpc]
    ends = [e for e in state.ec2.vpc_end_points.values() if e.vpc_id == vpc and e.state != "deleted"]
    if groups or gateways or ends:
        raise AwsError("DependencyViolation", f"The vpc '{vpc}' has dependencies and cannot be deleted.")
    return call.moto(None)
