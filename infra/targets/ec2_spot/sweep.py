"""The kinds of things that a deployment makes: how each is found by the id, what it costs an hour, how it is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import marks
from infra.clouds.aws.sweeping import (
    GIB,
    HOURS_A_MONTH,
    Kind,
    Thing,
    bucket_tags,
    calls,
    delete_bucket,
    delete_object,
    delete_role,
    listed,
    objects,
    sizes,
    stored,
    there,
)
from infra.targets.ec2_spot.names import BUILDS, Names, provisioning

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

GONE = frozenset({"terminated", "deleted", "closed", "cancelled", "failed"})

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Where:
    """Of which deployment things are looked for. `bucket`: the one that its outputs name, empty when it is not known."""

    session: Session
    names: Names
    bucket: str = ""

    @property
    def buckets(self) -> tuple[str, ...]:
        """Our own, and the one that the outputs tell."""
        return tuple(dict.fromkeys(name for name in (self.names.base, self.bucket) if name))

    @property
    def tagged(self) -> list[dict[str, object]]:
        """EC2's filter for this id."""
        return [{"Name": f"tag:{marks.ID_TAG}", "Values": [self.names.id]}]


def instances(w: Where, *, also_gone: bool = False) -> list[dict[str, Any]]:
    """The machines of the id; with `also_gone` those that EC2 still describes for an hour after their end."""
    groups = w.session.pages("ec2", "describe_instances", "Reservations", Filters=w.tagged)
    found = [i for group in groups for i in group.get("Instances") or []]
    return [i for i in found if also_gone or i["State"]["Name"] not in GONE]


def zone(item: Item, session: Session) -> str:
    """The zone of a thing, or its region."""
    placed = item.get("Placement") or {}
    return str(placed.get("AvailabilityZone") or item.get("AvailabilityZone") or session.region)


def _machines(w: Where) -> Iterator[Thing]:
    for item in instances(w):
        yield Thing(item["InstanceId"], zone(item, w.session), _machine_price(item, w.session.region))


def _requests(w: Where) -> Iterator[Thing]:
    """Requests for spot that may still give a machine. The provider does not tag them, so they are found by the machine as well."""
    known = [i["InstanceId"] for i in instances(w, also_gone=True)]
    filters = [w.tagged, *([[{"Name": "instance-id", "Values": known}]] if known else [])]
    seen: dict[str, dict[str, Any]] = {}
    for wanted in filters:
        for item in w.session.pages("ec2", "describe_spot_instance_requests", "SpotInstanceRequests", Filters=wanted):
            seen[str(item["SpotInstanceRequestId"])] = item
    for id_, request in seen.items():
        if request.get("State") not in GONE:
            yield Thing(id_, str(request.get("LaunchedAvailabilityZone") or w.session.region))


def _volumes(w: Where) -> Iterator[Thing]:
    for item in w.session.pages("ec2", "describe_volumes", "Volumes", Filters=w.tagged):
        yield Thing(item["VolumeId"], zone(item, w.session), _volume_price(item, w.session.region))


def _nats(w: Where) -> Iterator[Thing]:
    for item in w.session.pages("ec2", "describe_nat_gateways", "NatGateways", Filters=w.tagged):
        if item.get("State") not in GONE:
            yield Thing(item["NatGatewayId"], w.session.region, listed("aws-nat-gateway", w.session.region))


def _addresses(w: Where) -> Iterator[Thing]:
    for item in w.session.pages("ec2", "describe_addresses", "Addresses", Filters=w.tagged):
        yield Thing(item["AllocationId"], w.session.region, listed("aws-external-address", w.session.region))


def _interfaces(w: Where) -> Iterator[Thing]:
    """Those in our security group: an interface that outlived its machine has no tag."""
    groups = [g["GroupId"] for g in w.session.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=w.tagged)]
    wanted = [{"Name": "group-id", "Values": groups}]
    for item in w.session.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=wanted) if groups else ():
        if not (item.get("Attachment") or {}).get("DeleteOnTermination"):
            yield Thing(item["NetworkInterfaceId"], zone(item, w.session))


def _tagged(operation: str, key: str, id_: str) -> Callable[[Where], Iterator[Thing]]:
    """A free kind of EC2's that is found by its tag."""

    def find(w: Where) -> Iterator[Thing]:
        for item in w.session.pages("ec2", operation, key, Filters=w.tagged):
            if str(item.get("State", "")).lower() not in GONE:
                yield Thing(str(item[id_]), zone(item, w.session))

    return find


def _schedules(w: Where) -> Iterator[Thing]:
    yield from there(w.session, "scheduler", "get_schedule", w.names.base, w.session.region, Name=w.names.base)


def _associations(w: Where) -> Iterator[Thing]:
    wanted = [{"key": "AssociationName", "value": w.names.base}]
    for item in w.session.pages("ssm", "list_associations", "Associations", AssociationFilterList=wanted):
        yield Thing(str(item["AssociationId"]), w.session.region)


def _objects(w: Where) -> Iterator[Thing]:
    """Objects of this deployment, in whichever bucket they are."""
    yield from objects(w.session, w.buckets, f"{w.names.id}/")


def _buckets(w: Where) -> Iterator[Thing]:
    """The own bucket; one that an earlier deployment made, and this one took over, is ours by flexserve's tag."""
    for bucket in w.buckets:
        if bucket != w.names.base and not marks.ours(bucket_tags(w.session, bucket)):
            continue
        for thing in there(w.session, "s3", "head_bucket", bucket, w.session.region, Bucket=bucket):
            gib = sum(size for _, size in sizes(w.session, bucket, BUILDS)) / GIB
            costs = stored(gib, "s3-standard", w.session.region)
            yield Thing(thing.id, thing.place, costs, f"holds {gib:.1f} GiB of kept builds" if gib else "")


def _profiles(w: Where) -> Iterator[Thing]:
    yield from there(w.session, "iam", "get_instance_profile", w.names.base, "global", InstanceProfileName=w.names.base)


def _roles(w: Where) -> Iterator[Thing]:
    for name in (w.names.base, w.names.clock):
        yield from there(w.session, "iam", "get_role", name, "global", RoleName=name)


def _delete_gateway(session: Session, id_: str) -> None:
    wanted = [{"Name": "internet-gateway-id", "Values": [id_]}]
    for item in session.pages("ec2", "describe_internet_gateways", "InternetGateways", Filters=wanted):
        for joined in item.get("Attachments") or []:
            session.call("ec2", "detach_internet_gateway", InternetGatewayId=id_, VpcId=joined["VpcId"])
    session.call("ec2", "delete_internet_gateway", InternetGatewayId=id_)


def _delete_routes(session: Session, id_: str) -> None:
    wanted = [{"Name": "route-table-id", "Values": [id_]}]
    for item in session.pages("ec2", "describe_route_tables", "RouteTables", Filters=wanted):
        for joined in item.get("Associations") or []:
            if not joined.get("Main"):
                session.call("ec2", "disassociate_route_table", AssociationId=joined["RouteTableAssociationId"])
    session.call("ec2", "delete_route_table", RouteTableId=id_)


def _delete_profile(session: Session, id_: str) -> None:
    profile = session.call("iam", "get_instance_profile", InstanceProfileName=id_)["InstanceProfile"]
    for role in profile.get("Roles") or []:
        session.call("iam", "remove_role_from_instance_profile", InstanceProfileName=id_, RoleName=role["RoleName"])
    session.call("iam", "delete_instance_profile", InstanceProfileName=id_)


def _ended(session: Session, id_: str) -> bool:
    groups = list(session.pages("ec2", "describe_instances", "Reservations", InstanceIds=[id_]))
    return all(i["State"]["Name"] in GONE for group in groups for i in group.get("Instances") or [])


def _no_nat(session: Session, id_: str) -> bool:
    found = session.pages("ec2", "describe_nat_gateways", "NatGateways", NatGatewayIds=[id_])
    return all(item.get("State") in GONE for item in found)


KINDS = (
    Kind("schedule", _schedules, calls("scheduler", "delete_schedule", "Name")),
    Kind("association", _associations, calls("ssm", "delete_association", "AssociationId")),
    Kind("instance", _machines, calls("ec2", "terminate_instances", "InstanceIds", many=True), _ended),
    Kind("spot-request", _requests, calls("ec2", "cancel_spot_instance_requests", "SpotInstanceRequestIds", many=True)),
    Kind("volume", _volumes, calls("ec2", "delete_volume", "VolumeId")),
    Kind("nat-gateway", _nats, calls("ec2", "delete_nat_gateway", "NatGatewayId"), _no_nat),
    Kind("address", _addresses, calls("ec2", "release_address", "AllocationId")),
    Kind("network-interface", _interfaces, calls("ec2", "delete_network_interface", "NetworkInterfaceId")),
    Kind(
        "vpc-endpoint",
        _tagged("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
        calls("ec2", "delete_vpc_endpoints", "VpcEndpointIds", many=True),
    ),
    Kind(
        "security-group",
        _tagged("describe_security_groups", "SecurityGroups", "GroupId"),
        calls("ec2", "delete_security_group", "GroupId"),
    ),
    Kind("subnet", _tagged("describe_subnets", "Subnets", "SubnetId"), calls("ec2", "delete_subnet", "SubnetId")),
    Kind("route-table", _tagged("describe_route_tables", "RouteTables", "RouteTableId"), _delete_routes),
    Kind("internet-gateway", _tagged("describe_internet_gateways", "InternetGateways", "InternetGatewayId"), _delete_gateway),
    Kind("network", _tagged("describe_vpcs", "Vpcs", "VpcId"), calls("ec2", "delete_vpc", "VpcId")),
    Kind("object", _objects, delete_object),
    Kind("bucket", _buckets, delete_bucket),
    Kind("instance-profile", _profiles, _delete_profile),
    Kind("role", _roles, delete_role),
)
"""In the order in which they can be deleted."""


def _machine_price(item: Item, region: str) -> float | None:
    """A machine by its type and how it was given; one that is stopped costs nothing itself (its volume does)."""
    from catalog.loader import Catalog

    if item["State"]["Name"] == "stopped":
        return 0.0
    given = provisioning(item.get("InstanceLifecycle"))
    found = Catalog.load().price(str(item.get("InstanceType")), region=region, provisioning=given)
    return found.usd if found else None


def _volume_price(item: Item, region: str) -> float | None:
    """Size, and what is above the free; None when one of the three has no known price."""
    from infra.targets.ec2_spot.config import FREE_IOPS, FREE_THROUGHPUT

    name = str(item.get("VolumeType", ""))
    units = {
        name: float(item.get("Size", 0)),
        f"{name}-iops": max(0.0, float(item.get("Iops") or 0) - FREE_IOPS),
        f"{name}-throughput": max(0.0, float(item.get("Throughput") or 0) - FREE_THROUGHPUT),
    }
    prices = {key: listed(key, region) for key, count in units.items() if count}
    if any(price is None for price in prices.values()):
        return None
    return round(sum((prices[key] or 0.0) * units[key] for key in prices) / HOURS_A_MONTH, 6)
