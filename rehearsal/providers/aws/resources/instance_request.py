"""What RunInstances is asked for."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Send
from rehearsal.providers.aws.ec2 import found
from rehearsal.providers.aws.tags import (
    created_with,
)
from rehearsal.providers.resource import ProviderError
from rehearsal.providers.values import Values

MAX_USER_DATA: Final = 16384  # bytes before base64


def run_request(send: Send, planned: Mapping[str, Any]) -> Values:
    """The parameters of RunInstances."""
    device = planned.get("rootBlockDevice") or {}
    request: Values = {
        "BlockDeviceMappings": _root_mapping(send, planned, device) if device else None,
        "DisableApiStop": planned.get("disableApiStop"),
        "DisableApiTermination": planned.get("disableApiTermination"),
        "EbsOptimized": planned.get("ebsOptimized"),
        "IamInstanceProfile": {"Name": planned["iamInstanceProfile"]} if planned.get("iamInstanceProfile") else None,
        "ImageId": planned.get("ami"),
        "InstanceInitiatedShutdownBehavior": planned.get("instanceInitiatedShutdownBehavior"),
        "InstanceMarketOptions": _market_request(planned.get("instanceMarketOptions")),
        "InstanceType": planned.get("instanceType"),
        "KeyName": planned.get("keyName"),
        "MetadataOptions": metadata_request(planned.get("metadataOptions")),
        "Monitoring": {"Enabled": True} if planned.get("monitoring") else None,
        "Placement": _placement(planned),
        "UserData": _user_data(planned),
        **_network_request(planned),
    }
    return {
        "MinCount": 1,
        "MaxCount": 1,
        **{key: value for key, value in request.items() if value not in (None, "")},
        **created_with("instance", planned),
    }


def _user_data(planned: Mapping[str, Any]) -> bytes | None:
    """As botocore takes it: it does the base64 itself."""
    data = str(planned.get("userData") or "").encode() or base64.b64decode(planned.get("userDataBase64") or "")
    if len(data) > MAX_USER_DATA:
        raise ProviderError(f"expected length of user_data to be in the range (0 - {MAX_USER_DATA}), got {len(data)} bytes")
    return data or None


def _placement(planned: Mapping[str, Any]) -> Values | None:
    asked = {"AvailabilityZone": planned.get("availabilityZone"), "Tenancy": planned.get("tenancy")}
    return {key: value for key, value in asked.items() if value} or None


def _market_request(market: Any) -> Values | None:
    if not market or not market.get("marketType"):
        return None
    spot = market.get("spotOptions") or {}
    names = {
        "instanceInterruptionBehavior": "InstanceInterruptionBehavior",
        "maxPrice": "MaxPrice",
        "spotInstanceType": "SpotInstanceType",
        "validUntil": "ValidUntil",
    }
    options = {name: spot[key] for key, name in names.items() if spot.get(key)}
    return {"MarketType": market["marketType"], **({"SpotOptions": options} if options else {})}


def metadata_request(options: Any) -> Values | None:
    """The metadata service's options as AWS takes them."""
    if not options:
        return None
    enabled = options.get("httpEndpoint") != "disabled"
    asked = {
        "HttpEndpoint": options.get("httpEndpoint"),
        # AWS takes the others only where the endpoint is on.
        "HttpProtocolIpv6": options.get("httpProtocolIpv6") if enabled else None,
        "HttpPutResponseHopLimit": options.get("httpPutResponseHopLimit") if enabled else None,
        "HttpTokens": options.get("httpTokens") if enabled else None,
        "InstanceMetadataTags": options.get("instanceMetadataTags") if enabled else None,
    }
    return {key: value for key, value in asked.items() if value}


def _network_request(planned: Mapping[str, Any]) -> Values:
    """With a wish about the public address the first interface is spelt out; groups then belong there."""
    groups = sorted(planned.get("vpcSecurityGroupIds") or [])
    public = planned.get("associatePublicIpAddress")
    if planned.get("subnetId") and public is not None:
        interface = {
            "DeviceIndex": 0,
            "SubnetId": planned["subnetId"],
            "AssociatePublicIpAddress": public,
            "Groups": groups,
            "PrivateIpAddress": planned.get("privateIp"),
        }
        return {"NetworkInterfaces": [{key: value for key, value in interface.items() if value not in (None, [])}]}
    asked = {"SubnetId": planned.get("subnetId"), "SecurityGroupIds": groups, "PrivateIpAddress": planned.get("privateIp")}
    return {key: value for key, value in asked.items() if value}


def _root_mapping(send: Send, planned: Mapping[str, Any], device: Mapping[str, Any]) -> list[Values]:
    """The root volume under the name that the image gives it."""
    image = found(send, "DescribeImages", "Images", ImageIds=[planned["ami"]])
    if image is None:
        raise ProviderError(f"collecting instance settings: couldn't find image {planned['ami']}")
    kind = device.get("volumeType")
    sizes = {"iops": ("io1", "io2", "gp3"), "throughput": ("gp3",)}
    for key, kinds in sizes.items():
        if device.get(key) and kind not in kinds:
            raise ProviderError(
                "collecting instance settings: creating resource: "
                f"{key} attribute not supported for root_block_device with volume_type {kind}"
            )
    volume = {
        "DeleteOnTermination": device.get("deleteOnTermination", True),
        "Encrypted": device.get("encrypted") or None,
        "Iops": device.get("iops"),
        "KmsKeyId": device.get("kmsKeyId"),
        "Throughput": device.get("throughput"),
        "VolumeSize": device.get("volumeSize"),
        "VolumeType": kind,
    }
    # Zeros and empty texts are "not said"; false is a wish.
    asked = {key: value for key, value in volume.items() if value or value is False}
    return [{"DeviceName": image["RootDeviceName"], "Ebs": asked}]
