"""The properties of `ec2.Instance`: what may be given, what a change costs, what the state holds.

Source of marks and defaults: the official provider's schema (`aws_instance`).
"""

from __future__ import annotations

from typing import Final

from rehearsal.providers.aws.ec2 import REGION
from rehearsal.providers.aws.tags import TAGS
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, items, mapping, members, number, out, text, unsent


def same_price(one: str, other: str) -> bool:
    """Whether two prices are one: zeros at the end do not count."""
    return one.rstrip("0") == other.rstrip("0")


MARKET: Final[Fields] = {
    "marketType": text(computed=True, replace=True),
    "spotOptions": block(
        {
            "instanceInterruptionBehavior": text(computed=True, replace=True),
            "maxPrice": text(computed=True, replace=True, same=same_price),
            "spotInstanceType": text(computed=True, replace=True),
            "validUntil": text(computed=True, replace=True),
        },
        computed=True,
        replace=True,
    ),
}

METADATA: Final[Fields] = {
    "httpEndpoint": text(default="enabled"),
    "httpProtocolIpv6": text(default="disabled"),
    "httpPutResponseHopLimit": number(computed=True),
    "httpTokens": text(computed=True),
    "instanceMetadataTags": text(computed=True),
}

ROOT: Final[Fields] = {
    "deleteOnTermination": flag(default=True),
    "deviceName": out(),
    "encrypted": flag(computed=True, replace=True),
    "iops": number(computed=True),
    "kmsKeyId": text(computed=True, replace=True),
    **TAGS,
    "throughput": number(computed=True),
    "volumeId": out(),
    "volumeSize": number(computed=True),
    "volumeType": text(computed=True),
}

_NOT_OFFERED: Final[Fields] = {
    "capacityReservationSpecification": unsent(Prop(computed=True)),
    "cpuOptions": unsent(Prop(computed=True, replace=True)),
    "creditSpecification": unsent(Prop()),
    "ebsBlockDevices": unsent(blocks({}, zero=None, computed=True)),
    "enablePrimaryIpv6": unsent(flag(None, computed=True, replace=True)),
    "enclaveOptions": unsent(Prop(computed=True)),
    "ephemeralBlockDevices": unsent(blocks({}, zero=None, computed=True, replace=True)),
    "hibernation": unsent(flag(replace=True)),
    "hostId": unsent(text(computed=True, replace=True)),
    "hostResourceGroupArn": unsent(text(computed=True, replace=True)),
    "ipv6AddressCount": unsent(number(computed=True)),
    "ipv6Addresses": unsent(items(computed=True, replace=True)),
    "launchTemplate": unsent(Prop(replace=True)),
    "maintenanceOptions": unsent(Prop(computed=True)),
    "networkInterfaces": unsent(blocks({}, zero=None, computed=True)),
    "placementGroup": unsent(text(computed=True, replace=True)),
    "placementGroupId": unsent(text(computed=True, replace=True)),
    "placementPartitionNumber": unsent(number(computed=True, replace=True)),
    "primaryNetworkInterface": unsent(Prop(computed=True, replace=True)),
    "privateDnsNameOptions": unsent(Prop(computed=True, replace=True)),
    "secondaryNetworkInterfaces": unsent(blocks({}, zero=None, computed=True, replace=True)),
    "secondaryPrivateIps": unsent(members(computed=True)),
    "securityGroups": unsent(members(computed=True, replace=True)),
    "volumeTags": unsent(mapping()),
}

FIELDS: Final[Fields] = {
    **_NOT_OFFERED,
    "ami": text(computed=True, replace=True),
    "arn": out(),
    "associatePublicIpAddress": flag(computed=True, replace=True),
    "availabilityZone": text(computed=True, replace=True),
    "disableApiStop": flag(computed=True),
    "disableApiTermination": flag(computed=True),
    "ebsOptimized": flag(computed=True, replace=True),
    "forceDestroy": flag(default=False),
    "getPasswordData": unsent(flag(default=False)),
    "iamInstanceProfile": text(computed=True),
    "instanceInitiatedShutdownBehavior": text(computed=True),
    "instanceLifecycle": out(),
    "instanceMarketOptions": block(MARKET, computed=True, replace=True),
    "instanceState": out(),
    "instanceType": text(computed=True),
    "keyName": text(computed=True, replace=True),
    "metadataOptions": block(METADATA, computed=True),
    "monitoring": flag(computed=True),
    "outpostArn": out(),
    "passwordData": out(),
    "primaryNetworkInterfaceId": out(),
    "privateDns": out(),
    "privateIp": text(computed=True, replace=True),
    "publicDns": out(),
    "publicIp": out(),
    **REGION,
    "rootBlockDevice": block(ROOT, computed=True),
    "sourceDestCheck": flag(True, default=True),
    "spotInstanceRequestId": out(),
    "subnetId": text(computed=True, replace=True),
    **TAGS,
    "tenancy": text(computed=True, replace=True),
    "userData": text(computed=True),
    "userDataBase64": text(computed=True),
    "userDataReplaceOnChange": flag(default=False),
    "vpcSecurityGroupIds": members(computed=True),
}

CHANGED_IN_PLACE: Final = frozenset(
    {
        "disableApiStop",
        "disableApiTermination",
        "forceDestroy",
        "iamInstanceProfile",
        "instanceInitiatedShutdownBehavior",
        "instanceType",
        "metadataOptions",
        "monitoring",
        "rootBlockDevice.deleteOnTermination",
        "rootBlockDevice.iops",
        "rootBlockDevice.tags",
        "rootBlockDevice.tagsAll",
        "rootBlockDevice.throughput",
        "rootBlockDevice.volumeSize",
        "rootBlockDevice.volumeType",
        "sourceDestCheck",
        "userData",
        "userDataBase64",
        "userDataReplaceOnChange",
        "vpcSecurityGroupIds",
    }
)
