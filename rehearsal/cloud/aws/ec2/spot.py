"""Spot requests and prices. A request exists because an instance was run with market options; the legacy calls are not here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.ec2 import catalogue
from rehearsal.cloud.aws.errors import AwsError, NotModelled
from rehearsal.cloud.aws.state import State, new_id

STATUS = {
    "fulfilled": "Your Spot request is fulfilled.",
    "marked-for-termination": "The Spot Instance is marked for termination.",
    "instance-terminated-by-user": "The Spot Instance was terminated because you terminated it.",
    "instance-terminated-no-capacity": "The Spot Instance was terminated because there is no longer enough Spot capacity.",
}


def price(state: State, instance_type: str, zone: str) -> float | None:
    """US dollars an hour now: what the ledger bills, else what was seen of the type; None when nobody knows."""
    if instance_type in state.spot_now:
        return state.spot_now[instance_type]
    attributes = {"machine_type": instance_type, "provisioning_model": "spot", "where": zone, "region": state.region}
    found = state.price("instance", attributes)
    return state.inventory.spot_prices.get(instance_type) if found is None else found


def opened(state: State, instance: Any, options: Mapping[str, Any], tags: list[dict[str, str]]) -> None:
    """The request that belongs to a spot instance that was just run."""
    request_id = new_id("sir", 8)
    instance.spot_instance_request_id = request_id
    kind = options.get("SpotInstanceType", "one-time")
    request: Json = {
        "SpotInstanceRequestId": request_id,
        "InstanceId": instance.id,
        "CreateTime": state.now(),
        "Type": kind,
        "State": "active",
        "InstanceInterruptionBehavior": options.get("InstanceInterruptionBehavior", "terminate"),
        "LaunchedAvailabilityZone": instance.availability_zone,
        "ProductDescription": "Linux/UNIX",
        "LaunchSpecification": {"ImageId": instance.image_id, "InstanceType": instance.instance_type},
        "Tags": tags,
    }
    if (most := options.get("MaxPrice") or _on_demand(state, instance)) is not None:
        request["SpotPrice"] = f"{float(most):.6f}"
    state.spot[request_id] = request
    status(state, instance.id, "fulfilled")


def _on_demand(state: State, instance: Any) -> float | None:
    """The highest price that is paid where none is named; None when it is not known."""
    zone = instance.availability_zone
    attributes = {"machine_type": instance.instance_type, "provisioning_model": "on_demand", "where": zone, "region": state.region}
    return state.price("instance", attributes)


def status(state: State, instance_id: str, code: str, *, closed: bool = False) -> None:
    """What became of the instance's request. No request is no error."""
    for request in state.spot.values():
        if request["InstanceId"] == instance_id and request["State"] == "active":
            request["Status"] = {"Code": code, "Message": STATUS[code], "UpdateTime": state.now()}
            if closed:
                request["State"] = "closed"


def describe(state: State, call: Call) -> Result:
    """DescribeSpotInstanceRequests."""
    wanted, found = call.params.get("SpotInstanceRequestIds") or [], list(state.spot.values())
    if missing := [i for i in wanted if i not in state.spot]:
        raise AwsError("InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{missing[0]}' does not exist")
    if wanted:
        found = [request for request in found if request["SpotInstanceRequestId"] in wanted]
    for condition in call.params.get("Filters") or []:
        found = [request for request in found if _value(request, condition.get("Name", "")) in condition.get("Values", [])]
    return {"SpotInstanceRequests": found}


def _value(request: Json, name: str) -> str:
    if name.startswith("tag:"):
        return next((t["Value"] for t in request["Tags"] if t["Key"] == name[4:]), "")
    fields = {
        "spot-instance-request-id": request["SpotInstanceRequestId"],
        "instance-id": request["InstanceId"],
        "state": request["State"],
        "type": request["Type"],
        "status-code": request["Status"]["Code"],
        "launched-availability-zone": request["LaunchedAvailabilityZone"],
    }
    if name not in fields:
        raise NotModelled(f"the filter {name} of DescribeSpotInstanceRequests")
    return str(fields[name])


def cancel(state: State, call: Call) -> Result:
    """CancelSpotInstanceRequests: the instance stays; a request that is closed stays closed."""
    done = []
    for request_id in call.params["SpotInstanceRequestIds"]:
        if request_id not in state.spot:
            raise AwsError("InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{request_id}' does not exist")
        if state.spot[request_id]["State"] == "active":
            state.spot[request_id]["State"] = "cancelled"
        done.append({"SpotInstanceRequestId": request_id, "State": state.spot[request_id]["State"]})
    return {"CancelledSpotInstanceRequests": done}


def history(state: State, call: Call) -> Result:
    """DescribeSpotPriceHistory: one price a type and zone, as of an hour ago; none where the price is not known."""
    conditions = {c.get("Name", ""): c.get("Values", []) for c in call.params.get("Filters") or []}
    types = call.params.get("InstanceTypes") or conditions.get("instance-type") or sorted(state.inventory.spot_prices)
    zone = call.params.get("AvailabilityZone")
    wanted = [zone] if zone else conditions.get("availability-zone")
    rows = []
    for name in types:
        for where in catalogue.zones_of(state, name):
            now = price(state, name, where)
            if (wanted is None or where in wanted) and now is not None:
                rows.append(
                    {
                        "AvailabilityZone": where,
                        "InstanceType": name,
                        "ProductDescription": "Linux/UNIX",
                        "SpotPrice": f"{now:.6f}",
                        "Timestamp": state.now() - timedelta(hours=1),
                    }
                )
    return {"SpotPriceHistory": rows, "NextToken": ""}


def scores(state: State, call: Call) -> Result:
    """GetSpotPlacementScores: 9 where a type is offered, 1 where a stock-out is armed, 3 for a zone without it."""
    types, rows = call.params.get("InstanceTypes") or [], []
    regions = call.params.get("RegionNames") or [state.region]
    if state.region not in regions:
        return {"SpotPlacementScores": []}
    zones = sorted({z for name in types for z in catalogue.zones_of(state, name)})
    empty = {t.zone for t in state.troubles if t.capacity and t.foreseen and t.times != 0}
    if not call.params.get("SingleAvailabilityZone"):
        return {"SpotPlacementScores": [{"Region": state.region, "Score": 9 if zones and "" not in empty else 1}]}
    names = {z.name: z.zone_id for z in state.ec2.describe_availability_zones()}
    for zone, zone_id in sorted(names.items()):
        score = 1 if zone in empty or "" in empty else 9 if zone in zones else 3
        rows.append({"Region": state.region, "AvailabilityZoneId": zone_id, "Score": score})
    return {"SpotPlacementScores": rows}
