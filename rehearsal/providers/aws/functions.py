"""Data sources: what a program asks of the cloud while it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError
from rehearsal.providers.resource import Function, ProviderError
from rehearsal.providers.values import Secret, Values


def _region(api: Aws, args: Mapping[str, Any]) -> Values:
    """The stack's region, or the one asked for by name."""
    name = str(args.get("region") or args.get("name") or api.config.region)
    endpoint = f"ec2.{name}.amazonaws.com"
    return {"description": "", "endpoint": endpoint, "id": name, "name": name, "region": name}


def _caller(api: Aws, args: Mapping[str, Any]) -> Values:
    """Who the keys belong to."""
    there = api.service("sts")("GetCallerIdentity")
    return {"accountId": there["Account"], "arn": there["Arn"], "id": there["Account"], "userId": there["UserId"]}


def _zones(api: Aws, args: Mapping[str, Any]) -> Values:
    """The zones of a region that are open to the account."""
    asked: Values = {"AllAvailabilityZones": bool(args.get("allAvailabilityZones")), "Filters": _filters(args)}
    if args.get("state"):
        asked["Filters"] = [*asked["Filters"], {"Name": "state", "Values": [args["state"]]}]
    asked = {key: value for key, value in asked.items() if value}
    zones = api.service("ec2", args.get("region"))("DescribeAvailabilityZones", **asked)["AvailabilityZones"]
    excluded = {*(args.get("excludeNames") or []), *(args.get("excludeZoneIds") or [])}
    kept = sorted(
        (zone for zone in zones if zone["ZoneName"] not in excluded and zone.get("ZoneId") not in excluded),
        key=lambda zone: str(zone["ZoneName"]),
    )
    region = str(args.get("region") or api.config.region)
    return {
        **_echo(args, "allAvailabilityZones", "excludeNames", "excludeZoneIds", "filters", "state"),
        "groupNames": sorted({str(zone.get("GroupName") or region) for zone in kept}),
        "id": region,
        "names": [zone["ZoneName"] for zone in kept],
        "region": region,
        "zoneIds": [zone.get("ZoneId", "") for zone in kept],
    }


def _parameter(api: Aws, args: Mapping[str, Any]) -> Values:
    """A parameter of Systems Manager. Its value is secret; the one that is not (`insecureValue`) is told of plain text only."""
    name, decrypt = str(args["name"]), args.get("withDecryption", True) is not False
    try:
        there = api.service("ssm", args.get("region"))("GetParameter", Name=name, WithDecryption=decrypt)["Parameter"]
    except AwsError as error:
        if error.says("ParameterNotFound"):
            raise ProviderError(f"reading SSM Parameter ({name}): couldn't find resource") from error
        raise ProviderError(f"reading SSM Parameter ({name}): {error}") from error
    return {
        "arn": there.get("ARN", ""),
        "id": there["Name"],
        "insecureValue": "" if there["Type"] == "SecureString" else there["Value"],
        "name": there["Name"],
        "region": str(args.get("region") or api.config.region),
        "type": there["Type"],
        "value": Secret(there["Value"]),
        "version": there.get("Version", 0),
        "withDecryption": decrypt,
    }


_IMAGE: Final = {
    "architecture": "Architecture",
    "bootMode": "BootMode",
    "creationDate": "CreationDate",
    "deprecationTime": "DeprecationTime",
    "description": "Description",
    "hypervisor": "Hypervisor",
    "imageId": "ImageId",
    "imageLocation": "ImageLocation",
    "imageOwnerAlias": "ImageOwnerAlias",
    "imageType": "ImageType",
    "imdsSupport": "ImdsSupport",
    "kernelId": "KernelId",
    "lastLaunchedTime": "LastLaunchedTime",
    "name": "Name",
    "ownerId": "OwnerId",
    "platform": "Platform",
    "platformDetails": "PlatformDetails",
    "ramdiskId": "RamdiskId",
    "rootDeviceName": "RootDeviceName",
    "rootDeviceType": "RootDeviceType",
    "sriovNetSupport": "SriovNetSupport",
    "state": "State",
    "tpmSupport": "TpmSupport",
    "usageOperation": "UsageOperation",
    "virtualizationType": "VirtualizationType",
}


def _ami(api: Aws, args: Mapping[str, Any]) -> Values:
    """One image: the only one that fits, or the newest with `mostRecent`."""
    asked: Values = {
        "ExecutableUsers": args.get("executableUsers"),
        "Filters": _filters(args),
        "IncludeDeprecated": args.get("includeDeprecated"),
        "Owners": args.get("owners"),
    }
    asked = {key: value for key, value in asked.items() if value}
    images = api.service("ec2", args.get("region"))("DescribeImages", **asked)["Images"]
    if args.get("nameRegex"):
        images = [image for image in images if re.search(str(args["nameRegex"]), str(image.get("Name", "")))]
    if not images:
        raise ProviderError("Your query returned no results. Please change your search criteria and try again.")
    if len(images) > 1 and not args.get("mostRecent"):
        raise ProviderError(
            "Your query returned more than one result. Please try a more specific search criteria, or set "
            "`most_recent` attribute to true."
        )
    image = max(images, key=lambda item: str(item.get("CreationDate", "")))
    volumes = {item["DeviceName"]: item.get("Ebs") or {} for item in image.get("BlockDeviceMappings") or []}
    region = str(args.get("region") or api.config.region)
    return {
        **_echo(args, "allowUnsafeFilter", "executableUsers", "filters", "includeDeprecated", "mostRecent", "nameRegex", "owners"),
        **{key: image.get(name, "") for key, name in _IMAGE.items()},
        "arn": f"arn:aws:ec2:{region}::image/{image['ImageId']}",
        "blockDeviceMappings": [_volume(name, volume) for name, volume in volumes.items()],
        "enaSupport": bool(image.get("EnaSupport")),
        "id": image["ImageId"],
        "productCodes": [],
        "public": bool(image.get("Public")),
        "region": region,
        "rootSnapshotId": volumes.get(image.get("RootDeviceName", ""), {}).get("SnapshotId", ""),
        "stateReason": {"code": "UNSET", "message": "UNSET"},
        "tags": {tag["Key"]: tag["Value"] for tag in image.get("Tags") or []},
    }


def _volume(name: str, volume: Mapping[str, Any]) -> Values:
    ebs = {
        "delete_on_termination": str(bool(volume.get("DeleteOnTermination"))).lower(),
        "encrypted": str(bool(volume.get("Encrypted"))).lower(),
        "iops": str(volume.get("Iops", 0)),
        "snapshot_id": volume.get("SnapshotId", ""),
        "throughput": str(volume.get("Throughput", 0)),
        "volume_size": str(volume.get("VolumeSize", 0)),
        "volume_type": volume.get("VolumeType", ""),
    }
    return {"deviceName": name, "ebs": ebs, "noDevice": "", "virtualName": ""}


def _filters(args: Mapping[str, Any]) -> list[Values]:
    return [{"Name": item["name"], "Values": item["values"]} for item in args.get("filters") or []]


def _echo(args: Mapping[str, Any], *keys: str) -> Values:
    return {key: args[key] for key in keys if args.get(key) is not None}


FUNCTIONS: Final[Mapping[str, Function[Aws]]] = {
    function.token: function
    for function in (
        Function("aws:ec2/getAmi:getAmi", _ami),
        Function("aws:index/getAvailabilityZones:getAvailabilityZones", _zones),
        Function("aws:index/getCallerIdentity:getCallerIdentity", _caller),
        Function("aws:index/getRegion:getRegion", _region),
        Function("aws:ssm/getParameter:getParameter", _parameter),
    )
}
