"""An EC2 instance as the state keeps it, read together from six kinds of request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from rehearsal.providers.aws.api import Aws, Send
from rehearsal.providers.aws.ec2 import ec2, found, region_of
from rehearsal.providers.aws.tags import told_tags
from rehearsal.providers.resource import Call
from rehearsal.providers.values import Values


def find(send: Send, identifier: str) -> Values | None:
    """The instance whatever its state, or None when AWS has forgotten it."""
    reservation = found(send, "DescribeInstances", "Reservations", InstanceIds=[identifier])
    instances = (reservation or {}).get("Instances") or []
    return instances[0] if instances else None


def state_of(instance: Mapping[str, Any] | None) -> str:
    """pending, running, shutting-down, terminated, stopping or stopped."""
    return str(((instance or {}).get("State") or {}).get("Name", ""))


def read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    """The whole state. A terminated instance counts as gone, though AWS tells of it for an hour."""
    send = ec2(call, before)
    instance = find(send, identifier)
    if instance is None or state_of(instance) == "terminated":
        return None
    placement, profile = instance.get("Placement") or {}, (instance.get("IamInstanceProfile") or {}).get("Arn", "")
    return {
        "ami": instance.get("ImageId", ""),
        "arn": call.api.arn("ec2", f"instance/{identifier}", region_of(call, before)),
        "availabilityZone": placement.get("AvailabilityZone", ""),
        "disableApiStop": _switch(send, identifier, "disableApiStop"),
        "disableApiTermination": _switch(send, identifier, "disableApiTermination"),
        "ebsOptimized": bool(instance.get("EbsOptimized")),
        "iamInstanceProfile": profile.rpartition("/")[2],
        "instanceInitiatedShutdownBehavior": _attribute(send, identifier, "instanceInitiatedShutdownBehavior") or "",
        "instanceState": state_of(instance),
        "instanceType": instance.get("InstanceType", ""),
        "keyName": instance.get("KeyName", ""),
        "monitoring": (instance.get("Monitoring") or {}).get("State") in ("enabled", "pending"),
        "passwordData": "",
        "privateDns": instance.get("PrivateDnsName", ""),
        "privateIp": instance.get("PrivateIpAddress", ""),
        "publicDns": instance.get("PublicDnsName", ""),
        "publicIp": instance.get("PublicIpAddress", ""),
        "region": region_of(call, before),
        "tenancy": placement.get("Tenancy", "default"),
        **told_tags(call.api, instance.get("Tags"), before),
        **_network(instance),
        **_market(send, instance, before),
        **_metadata(instance),
        **_user_data(send, identifier, before),
        **_root(call, send, instance, before),
    }


def _attribute(send: Send, identifier: str, name: str) -> Any:
    answer = send("DescribeInstanceAttribute", InstanceId=identifier, Attribute=name)
    return (answer.get(name[0].upper() + name[1:]) or {}).get("Value")


def _switch(send: Send, identifier: str, name: str) -> bool:
    return bool(_attribute(send, identifier, name))


def _network(instance: Mapping[str, Any]) -> Values:
    groups = [group["GroupId"] for group in instance.get("SecurityGroups") or []]
    interfaces = instance.get("NetworkInterfaces") or []
    primary = next((item for item in interfaces if (item.get("Attachment") or {}).get("DeviceIndex", 0) == 0), None)
    if primary is None:
        return {
            "associatePublicIpAddress": bool(instance.get("PublicIpAddress")),
            "primaryNetworkInterfaceId": "",
            "sourceDestCheck": bool(instance.get("SourceDestCheck", True)),
            "subnetId": instance.get("SubnetId", ""),
            "vpcSecurityGroupIds": groups or None,
        }
    return {
        "associatePublicIpAddress": bool(primary.get("Association")),
        "primaryNetworkInterfaceId": primary.get("NetworkInterfaceId", ""),
        "sourceDestCheck": bool(instance.get("SourceDestCheck", primary.get("SourceDestCheck", True))),
        "subnetId": primary.get("SubnetId", ""),
        "vpcSecurityGroupIds": groups or [group["GroupId"] for group in primary.get("Groups") or []] or None,
    }


def _market(send: Send, instance: Mapping[str, Any], before: Mapping[str, Any]) -> Values:
    """What the spot request says; without an answer to that, what was asked for."""
    lifecycle, request_id = instance.get("InstanceLifecycle", ""), instance.get("SpotInstanceRequestId", "")
    if lifecycle != "spot":
        return {"instanceLifecycle": lifecycle, "instanceMarketOptions": None, "spotInstanceRequestId": ""}
    told: Values = {"instanceLifecycle": lifecycle, "spotInstanceRequestId": request_id}
    asked = {"SpotInstanceRequestIds": [request_id]}
    request = found(send, "DescribeSpotInstanceRequests", "SpotInstanceRequests", **asked) if request_id else None
    if request is None:
        market = before.get("instanceMarketOptions")
        return told | ({"instanceMarketOptions": market} if market else {})
    until = request.get("ValidUntil")
    options = {
        "instanceInterruptionBehavior": request.get("InstanceInterruptionBehavior", ""),
        "maxPrice": request.get("SpotPrice", ""),
        "spotInstanceType": request.get("Type", ""),
        "validUntil": until.strftime("%Y-%m-%dT%H:%M:%SZ") if until else "",
    }
    return told | {"instanceMarketOptions": {"marketType": "spot", "spotOptions": options}}


def _metadata(instance: Mapping[str, Any]) -> Values:
    options = instance.get("MetadataOptions")
    if not options:
        return {}
    return {
        "metadataOptions": {
            "httpEndpoint": options.get("HttpEndpoint", "enabled"),
            "httpProtocolIpv6": options.get("HttpProtocolIpv6", "disabled"),
            "httpPutResponseHopLimit": options.get("HttpPutResponseHopLimit", 1),
            "httpTokens": options.get("HttpTokens", "optional"),
            "instanceMetadataTags": options.get("InstanceMetadataTags", "disabled"),
        }
    }


def _user_data(send: Send, identifier: str, before: Mapping[str, Any]) -> Values:
    """In one of two properties: base64 where the program gave that, else in clear."""
    encoded = _attribute(send, identifier, "userData")
    if not encoded:
        return {}
    if before.get("userDataBase64"):
        return {"userDataBase64": encoded}
    return {"userData": base64.b64decode(encoded).decode("utf-8", "replace")}


def _root(call: Call[Aws], send: Send, instance: Mapping[str, Any], before: Mapping[str, Any]) -> Values:
    root = root_mapping(instance)
    if root is None:
        return {}
    volume = found(send, "DescribeVolumes", "Volumes", VolumeIds=[root["Ebs"]["VolumeId"]])
    if volume is None:
        return {}
    return {
        "rootBlockDevice": {
            "deleteOnTermination": bool(root["Ebs"].get("DeleteOnTermination")),
            "deviceName": root["DeviceName"],
            "encrypted": bool(volume.get("Encrypted")),
            "iops": volume.get("Iops", 0),
            "kmsKeyId": volume.get("KmsKeyId", ""),
            "throughput": volume.get("Throughput", 0),
            "volumeId": volume["VolumeId"],
            "volumeSize": volume["Size"],
            "volumeType": volume.get("VolumeType", ""),
            **told_tags(call.api, volume.get("Tags"), before.get("rootBlockDevice") or {}),
        }
    }


def root_mapping(instance: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The mapping of the root device, when it is a volume."""
    for item in instance.get("BlockDeviceMappings") or []:
        if item.get("DeviceName") == instance.get("RootDeviceName") and item.get("Ebs"):
            mapping: Mapping[str, Any] = item
            return mapping
    return None
