"""The properties of `compute.Instance`: what may be given, what a change costs, what the state holds.

Source of marks and zeros: the recorded state and the recorded table of changes, and the official provider's schema.
"""

from __future__ import annotations

from typing import Final

from rehearsal.providers.google.labels import LABELS
from rehearsal.providers.google.names import same_image, same_name, same_scope, same_thing
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, items, mapping, members, number, out, text, unsent

_PERIOD: Final[Fields] = {"seconds": number(required=True, replace=True), "nanos": number(replace=True)}
_SOFT_PERIOD: Final[Fields] = {"seconds": number(required=True), "nanos": number()}

INITIALIZE: Final[Fields] = {
    "architecture": text(computed=True, replace=True),
    "enableConfidentialCompute": unsent(flag(replace=True)),
    "image": text(computed=True, replace=True, same=same_image),
    "labels": mapping({}, computed=True),
    "provisionedIops": number(computed=True, replace=True),
    "provisionedThroughput": number(computed=True, replace=True),
    "replicaZones": unsent(items(replace=True)),
    "resourceManagerTags": unsent(mapping(replace=True)),
    "resourcePolicies": unsent(items(computed=True, replace=True)),
    "size": number(computed=True),
    "snapshot": unsent(text(computed=True, replace=True, same=same_thing)),
    "sourceImageEncryptionKey": unsent(Prop(replace=True)),
    "sourceSnapshotEncryptionKey": unsent(Prop(replace=True)),
    "storagePool": unsent(text(replace=True, same=same_name)),
    "type": text(computed=True, replace=True),
}

BOOT_DISK: Final[Fields] = {
    "autoDelete": flag(default=True),
    "deviceName": text(computed=True, replace=True),
    "diskEncryptionKeyRaw": unsent(text(replace=True, secret=True)),
    "diskEncryptionKeyRsa": unsent(text(replace=True, secret=True)),
    "diskEncryptionKeySha256": out(),
    "diskEncryptionServiceAccount": unsent(text(replace=True)),
    "forceAttach": flag(default=False, replace=True),
    "guestOsFeatures": unsent(items([], computed=True, replace=True)),
    "initializeParams": block(INITIALIZE, computed=True),
    "interface": text(None),
    "kmsKeySelfLink": unsent(text(computed=True, replace=True, same=same_thing)),
    "mode": text(default="READ_WRITE", replace=True),
    "source": text(computed=True, replace=True, same=same_thing),
}

ACCESS_CONFIG: Final[Fields] = {
    "natIp": text(computed=True),
    "networkTier": text(computed=True),
    "publicPtrDomainName": unsent(text()),
    "securityPolicy": out(),
}

INTERFACE: Final[Fields] = {
    "accessConfigs": blocks(ACCESS_CONFIG),
    "aliasIpRanges": unsent(blocks({"ipCidrRange": text(required=True), "subnetworkRangeName": text()})),
    "aliasIpv6Ranges": unsent(blocks({"ipCidrRange": text(required=True), "subnetworkRangeName": text()})),
    "igmpQuery": unsent(text(computed=True)),
    "internalIpv6PrefixLength": unsent(number(computed=True)),
    "ipv6AccessConfigs": unsent(blocks({})),
    "ipv6AccessType": out(),
    "ipv6Address": unsent(text(computed=True)),
    "macAddress": out(),
    "name": out(),
    "network": text(computed=True, same=same_thing),
    "networkAttachment": unsent(text(computed=True, replace=True, same=same_thing)),
    "networkIp": text(computed=True),
    "nicType": text(replace=True),
    "parentNicName": out(),
    "queueCount": unsent(number(replace=True)),
    "securityPolicy": unsent(text()),
    "stackType": text(computed=True),
    "subnetwork": text(computed=True, same=same_thing),
    "subnetworkProject": text(computed=True),
    "vlan": unsent(number(replace=True)),
}

SCHEDULING: Final[Fields] = {
    "automaticRestart": flag(default=True),
    "availabilityDomain": number(),
    "gracefulShutdown": block({"enabled": flag(required=True), "maxDuration": block(_SOFT_PERIOD)}),
    "hostErrorTimeoutSeconds": number(),
    "instanceTerminationAction": text(),
    "localSsdRecoveryTimeout": block(_PERIOD, replace=True),
    "maintenanceInterval": text(),
    "maxRunDuration": block(_PERIOD, replace=True),
    "minNodeCpus": number(),
    "nodeAffinities": blocks({"key": text(), "operator": text(), "values": members()}),
    "onHostMaintenance": text(computed=True),
    "onInstanceStopAction": block({"discardLocalSsd": flag(default=False, replace=True)}, replace=True),
    "preemptible": flag(default=False, replace=True),
    "preemptionNoticeDuration": block(_SOFT_PERIOD),
    "provisioningModel": text(computed=True, replace=True),
    "skipGuestOsShutdown": flag(default=False),
    "terminationTime": text(replace=True),
}

FIELDS: Final[Fields] = {
    "advancedMachineFeatures": unsent(Prop()),
    "allowStoppingForUpdate": flag(None),
    "attachedDisks": unsent(blocks({})),
    "bootDisk": block(BOOT_DISK, required=True),
    "canIpForward": flag(default=False),
    "confidentialInstanceConfig": unsent(Prop(computed=True, replace=True)),
    "cpuPlatform": out(),
    "creationTimestamp": out(),
    "currentStatus": out(),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "deletionProtection": flag(default=False),
    "description": text(),
    "desiredStatus": unsent(text(None)),
    "enableDisplay": unsent(flag()),
    "eraseWindowsVssSignature": unsent(flag(default=False)),
    "guestAccelerators": blocks({"count": number(replace=True), "type": text(replace=True)}, computed=True, replace=True),
    "hostname": text(replace=True),
    "instanceEncryptionKey": unsent(Prop(replace=True)),
    "instanceId": out(),
    "keyRevocationActionType": unsent(text(replace=True)),
    "labelFingerprint": out(),
    **LABELS,
    "machineType": text(required=True, same=same_name),
    "metadata": mapping(),
    "metadataFingerprint": out(),
    "metadataStartupScript": text(None),
    "minCpuPlatform": text(computed=True),
    "name": text(autoname=True, replace=True),
    "networkInterfaces": blocks(INTERFACE, required=True, replace=True),
    "networkPerformanceConfig": unsent(Prop(replace=True)),
    "params": unsent(Prop(replace=True)),
    "partnerMetadata": unsent(mapping()),
    "project": text(computed=True, replace=True),
    "reservationAffinity": block(
        {
            "specificReservation": block({"key": text(replace=True), "values": items(replace=True)}, replace=True),
            "type": text(required=True, replace=True),
        },
        computed=True,
        replace=True,
    ),
    "resourcePolicies": unsent(items()),
    "scheduling": block(SCHEDULING, computed=True),
    "scratchDisks": unsent(blocks({}, replace=True)),
    "selfLink": out(),
    "serviceAccount": block({"email": text(computed=True), "scopes": members(required=True, same=same_scope, whole=True)}),
    "shieldedInstanceConfig": block(
        {
            "enableIntegrityMonitoring": flag(default=True),
            "enableSecureBoot": flag(default=False),
            "enableVtpm": flag(default=True),
        },
        computed=True,
    ),
    "tags": members(),
    "tagsFingerprint": out(),
    "workloadIdentityConfig": unsent(Prop(replace=True)),
    "zone": text(computed=True, replace=True),
}
