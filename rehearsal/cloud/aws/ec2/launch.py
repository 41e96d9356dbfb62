"""RunInstances: refused, or with EC2's defaults filled in given to moto, and corrected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.ec2 import bodies, catalogue, lifecycle, refusals, spot
from rehearsal.cloud.aws.ec2.described import reservation
from rehearsal.cloud.aws.errors import AwsError, NotModelled
from rehearsal.cloud.aws.state import State

UNUSED = ("LaunchTemplate", "CapacityReservationSpecification", "ElasticGpuSpecification")


def run(state: State, call: Call) -> Result:
    """RunInstances. Once for one client token."""
    params, token = call.params, call.params.get("ClientToken")
    if token and token in state.run_tokens:
        return _again(state, call, token)
    filled = _checked(state, call)
    if params.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    answer = call.moto(filled).parsed
    market = (params.get("InstanceMarketOptions") or {}).get("SpotOptions") or {}
    for row in answer["Instances"]:
        instance: Any = bodies.find(state, row["InstanceId"])
        _corrected(instance, filled)
        if refusals.is_spot(params):
            spot.opened(state, instance, market, _tags(params, "spot-instances-request"))
            row["SpotInstanceRequestId"] = instance.spot_instance_request_id
        lifecycle.begin(state, instance)
        row["State"] = {"Code": 0, "Name": "pending"}
        row["NetworkInterfaces"] = [_without_none(n) for n in row.get("NetworkInterfaces", [])]
    if token:
        state.run_tokens[token] = (params, [row["InstanceId"] for row in answer["Instances"]])
    return answer


def _again(state: State, call: Call, token: str) -> Result:
    before, ids = state.run_tokens[token]
    if before != call.params:
        raise AwsError("IdempotentParameterMismatch", "The client token has been used with other parameters.")
    if bodies.find(state, ids[0]) is None:
        raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{ids[0]}' does not exist")
    return reservation(state, ids[0])


def _checked(state: State, call: Call) -> Json:
    """The parameters with EC2's defaults filled in. Raises AwsError for what EC2 refuses, in about its order."""
    params = call.params
    if used := [name for name in UNUSED if params.get(name)]:
        raise NotModelled(f"{used[0]} of RunInstances")
    refusals.user_data(params)
    kind = params.get("InstanceType", "")
    description = catalogue.instance_type(kind)
    if description is None:
        raise AwsError("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
    image = state.ec2.amis.get(params.get("ImageId", ""))
    if image is None:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{params.get('ImageId', '')}]' does not exist")
    refusals.architecture(description, image)
    refusals.hibernation(params, description)
    refusals.profile(state, params)
    refusals.market(params)
    zone, filled = _place(state, params, kind)
    count = int(params.get("MaxCount", 1))
    refusals.quota(state, kind, count, spot_instance=refusals.is_spot(params))
    if refusals.is_spot(params):
        refusals.price(state, params, kind, zone)
    filled["BlockDeviceMappings"] = _disks(params, image)
    filled["MinCount"] = count  # moto makes the least that is wanted, AWS the most
    refusals.capacity(state, call, kind, zone)
    return filled


def _place(state: State, params: Json, kind: str) -> tuple[str, Json]:
    """The zone, and the parameters with a subnet in it. Without one asked for: the default network's, in a zone with the type."""
    offered = catalogue.zones_of(state, kind)
    nics = params.get("NetworkInterfaces") or []
    subnet_id = params.get("SubnetId") or next((n["SubnetId"] for n in nics if n.get("SubnetId")), None)
    wanted = (params.get("Placement") or {}).get("AvailabilityZone")
    filled = dict(params)
    if subnet_id is not None:
        subnet = next((s[subnet_id] for s in state.ec2.subnets.values() if subnet_id in s), None)
        if subnet is None:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist")
        zone = str(subnet.availability_zone)
        if wanted and wanted != zone:
            raise AwsError("InvalidParameterValue", f"The availability zone '{wanted}' does not match the subnet's '{zone}'")
    else:
        zone = wanted or (offered[0] if offered else f"{state.region}a")
        default = next(
            (
                s
                for z in state.ec2.subnets.values()
                for s in z.values()
                if s.availability_zone == zone and s.default_for_az in (True, "true")
            ),
            None,
        )
        if default is None:
            raise AwsError("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
        filled["SubnetId"] = default.id
    if zone not in offered:
        raise refusals.unsupported(kind, zone, offered)
    return zone, filled


def _disks(params: Json, image: Any) -> list[Json]:
    """The mappings with the image's root volume in them."""
    root = dict(image.block_device_mappings[0])
    asked = [dict(m) for m in params.get("BlockDeviceMappings") or []]
    own = next((m for m in asked if m.get("DeviceName") == root["DeviceName"]), None)
    least = int(root["Ebs"]["VolumeSize"])
    defaults = {"VolumeSize": least, "VolumeType": root["Ebs"]["VolumeType"], "DeleteOnTermination": True}
    ebs = {**defaults, **((own or {}).get("Ebs") or {})}
    if int(ebs["VolumeSize"]) < least:
        snapshot = root["Ebs"]["SnapshotId"]
        text = f"Volume of size {ebs['VolumeSize']}GB is smaller than snapshot '{snapshot}', expect size >= {least}GB"
        raise AwsError("InvalidBlockDeviceMapping", text)
    if ebs.get("Throughput") and ebs["VolumeType"] != "gp3":
        raise AwsError("InvalidParameterCombination", f"The parameter throughput is not supported for {ebs['VolumeType']} volumes.")
    rest = [m for m in asked if m is not own]
    return [{"DeviceName": root["DeviceName"], "Ebs": ebs}, *rest]


def _corrected(instance: Any, params: Json) -> None:
    """What moto does not take over: speed of the volumes, and that a new interface goes with its instance."""
    by_device = {m["DeviceName"]: m.get("Ebs") or {} for m in params["BlockDeviceMappings"]}
    for device, attached in instance.get_block_device_mapping:
        volume = instance.ec2_backend.get_volume(attached.volume_id)
        asked = by_device.get(device, {})
        volume.iops, volume.throughput = asked.get("Iops") or volume.iops, asked.get("Throughput") or volume.throughput
        if volume.volume_type == "gp3":
            volume.iops, volume.throughput = volume.iops or 3000, volume.throughput or 125
    given = {n.get("NetworkInterfaceId") for n in params.get("NetworkInterfaces") or []}
    kept = any(n.get("DeleteOnTermination") is False for n in params.get("NetworkInterfaces") or [])
    for nic in instance.nics.values():
        nic.delete_on_termination = nic.id not in given and not kept


def _tags(params: Json, kind: str) -> list[dict[str, str]]:
    return [t for spec in params.get("TagSpecifications") or [] if spec.get("ResourceType") == kind for t in spec.get("Tags", [])]


def _without_none(value: Mapping[str, Any]) -> Json:
    return {k: v for k, v in value.items() if v is not None}
