"""`compute.Instance` to and from the Compute API: request bodies out of properties, properties out of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehearsal.providers.google.labels import told_labels
from rehearsal.providers.google.names import in_project, last, relative, scope, v1
from rehearsal.providers.resource import ProviderError
from rehearsal.providers.schema import terraform_order
from rehearsal.providers.values import Values


def insert_body(project: str, zone: str, wanted: Mapping[str, Any]) -> Values:
    """The body of an insert. Nulls are sent where the official provider sends them."""
    place = f"zones/{zone}"
    return present(
        {
            "canIpForward": bool(wanted.get("canIpForward")),
            "deletionProtection": bool(wanted.get("deletionProtection")),
            "description": wanted.get("description"),
            "disks": [_boot_disk(project, place, wanted["bootDisk"])],
            "guestAccelerators": [
                {
                    "acceleratorCount": card["count"],
                    "acceleratorType": in_project(project, place, "acceleratorTypes", card["type"]),
                }
                for card in wanted.get("guestAccelerators") or []
            ],
            "hostname": wanted.get("hostname"),
            "labels": wanted.get("effectiveLabels"),
            "machineType": in_project(project, place, "machineTypes", wanted["machineType"]),
            "minCpuPlatform": wanted.get("minCpuPlatform"),
            "name": wanted["name"],
            "networkInterfaces": [_interface(project, zone, nic) for nic in wanted["networkInterfaces"]],
            "reservationAffinity": _reservation(wanted.get("reservationAffinity")),
            "serviceAccounts": service_accounts(wanted.get("serviceAccount")),
            "shieldedInstanceConfig": dict(wanted.get("shieldedInstanceConfig") or {}),
        }
    ) | {
        "metadata": metadata_body(wanted),
        "params": {},
        "scheduling": scheduling_body(wanted.get("scheduling")),
        "tags": present({"items": terraform_order(wanted.get("tags") or [])}),
    }


def present(values: Mapping[str, Any]) -> Values:
    """Without what is empty: the API's Go types leave it out. False stays where it was put on purpose."""
    return {key: value for key, value in values.items() if value is False or value not in (None, "", [], {}, 0)}


def _boot_disk(project: str, place: str, disk: Mapping[str, Any]) -> Values:
    made = disk.get("initializeParams") or {}
    size, iops, rate = (made.get(key) for key in ("size", "provisionedIops", "provisionedThroughput"))
    initialize = present(
        {
            "architecture": made.get("architecture"),
            "diskSizeGb": str(size) if size else None,
            "diskType": in_project(project, place, "diskTypes", made["type"]) if made.get("type") else None,
            "labels": made.get("labels"),
            "provisionedIops": str(iops) if iops else None,
            "provisionedThroughput": str(rate) if rate else None,
            "sourceImage": _image(made["image"]) if made.get("image") else None,
        }
    )
    return {"autoDelete": disk.get("autoDelete") is not False, "boot": True} | present(
        {
            "deviceName": disk.get("deviceName"),
            "forceAttach": disk.get("forceAttach") or None,
            "initializeParams": initialize,
            "interface": disk.get("interface"),
            "mode": disk.get("mode"),
            "source": relative(disk["source"]) if disk.get("source") else None,
        }
    )


def _image(image: str) -> str:
    """An image as sent. Short names, which the official provider looks up first, are beyond the stand-in."""
    if "projects/" not in image:
        raise ProviderError(f"Error resolving image name '{image}': the stand-in provider takes projects/… names only")
    return relative(image)


def _interface(project: str, zone: str, nic: Mapping[str, Any]) -> Values:
    region = zone.rpartition("-")[0]
    owner = nic.get("subnetworkProject") or project
    network, subnetwork = nic.get("network"), nic.get("subnetwork")
    return present(
        {
            "accessConfigs": [access_config(access) for access in nic.get("accessConfigs") or []],
            "network": in_project(project, "global", "networks", network) if network else None,
            "networkIP": nic.get("networkIp"),
            "nicType": nic.get("nicType"),
            "stackType": nic.get("stackType"),
            "subnetwork": in_project(owner, f"regions/{region}", "subnetworks", subnetwork) if subnetwork else None,
        }
    )


def access_config(access: Mapping[str, Any]) -> Values:
    """One external address as sent."""
    return {"type": "ONE_TO_ONE_NAT"} | present({"natIP": access.get("natIp"), "networkTier": access.get("networkTier")})


def _reservation(affinity: Mapping[str, Any] | None) -> Values:
    if not affinity:
        return {}
    specific = affinity.get("specificReservation") or {}
    return present({"consumeReservationType": affinity["type"], "key": specific.get("key"), "values": specific.get("values")})


def service_accounts(account: Mapping[str, Any] | None) -> list[Values]:
    """The machine's account and its scopes, by full address."""
    if not account:
        return []
    return [
        {
            "email": account.get("email") or "default",
            "scopes": terraform_order({scope(name) for name in account.get("scopes") or []}),
        }
    ]


def metadata_body(wanted: Mapping[str, Any]) -> Values:
    """Metadata as key and value pairs, in order of their keys."""
    pairs = dict(wanted.get("metadata") or {})
    if wanted.get("metadataStartupScript"):
        pairs["startup-script"] = wanted["metadataStartupScript"]
    return present({"items": [{"key": key, "value": str(pairs[key])} for key in sorted(pairs)]})


def scheduling_body(scheduling: Mapping[str, Any] | None) -> Values:
    """The whole scheduling block, as sent at insert and by every change of a part of it."""
    if not scheduling:
        return {"automaticRestart": True}
    affinities = scheduling.get("nodeAffinities")
    graceful, stop = scheduling.get("gracefulShutdown"), scheduling.get("onInstanceStopAction")
    always = {
        "automaticRestart": scheduling.get("automaticRestart") is not False,
        "gracefulShutdown": _graceful(graceful),
        "hostErrorTimeoutSeconds": scheduling.get("hostErrorTimeoutSeconds") or None,
        "instanceTerminationAction": scheduling.get("instanceTerminationAction") or "",
        "localSsdRecoveryTimeout": _period(scheduling.get("localSsdRecoveryTimeout")),
        "maxRunDuration": _period(scheduling.get("maxRunDuration")),
        "nodeAffinities": [dict(item) for item in affinities] if affinities else [None],
        "onHostMaintenance": scheduling.get("onHostMaintenance") or "",
        "onInstanceStopAction": {"discardLocalSsd": bool(stop.get("discardLocalSsd"))} if stop else None,
        "preemptible": bool(scheduling.get("preemptible")),
        "preemptionNoticeDuration": _period(scheduling.get("preemptionNoticeDuration")),
        "provisioningModel": scheduling.get("provisioningModel") or "",
        "skipGuestOsShutdown": bool(scheduling.get("skipGuestOsShutdown")),
    }
    return always | present(
        {key: scheduling.get(key) for key in ("availabilityDomain", "maintenanceInterval", "minNodeCpus", "terminationTime")}
    )


def _graceful(graceful: Mapping[str, Any] | None) -> Values | None:
    if not graceful:
        return None
    return {"enabled": bool(graceful.get("enabled"))} | present({"maxDuration": _period(graceful.get("maxDuration"))})


def _period(period: Mapping[str, Any] | None) -> Values | None:
    return present({"seconds": period.get("seconds"), "nanos": period.get("nanos")}) if period else None


def told(project: str, found: Mapping[str, Any], disk: Mapping[str, Any] | None, before: Mapping[str, Any]) -> Values:
    """The properties of an instance as the API shows it; `disk` is its boot disk, `before` the plan or last state."""
    metadata = {item["key"]: item.get("value", "") for item in found.get("metadata", {}).get("items", [])}
    script = before.get("metadataStartupScript")
    if script:
        script = metadata.pop("startup-script", None)
    boot = next((item for item in found.get("disks", []) if item.get("boot")), None)
    accounts, affinity = found.get("serviceAccounts") or [], found.get("reservationAffinity")
    shielded = found.get("shieldedInstanceConfig")
    return told_labels(found.get("labels"), before) | {
        "bootDisk": _told_disk(boot, disk, before.get("bootDisk") or {}) if boot else None,
        "canIpForward": bool(found.get("canIpForward")),
        "cpuPlatform": found.get("cpuPlatform", ""),
        "creationTimestamp": found.get("creationTimestamp", ""),
        "currentStatus": found.get("status", ""),
        "deletionProtection": bool(found.get("deletionProtection")),
        "description": found.get("description", ""),
        "enableDisplay": bool(found.get("displayDevice", {}).get("enableDisplay")),
        "guestAccelerators": [
            {"count": card["acceleratorCount"], "type": v1(card["acceleratorType"])} for card in found.get("guestAccelerators", [])
        ],
        "hostname": found.get("hostname", ""),
        "instanceId": str(found.get("id", "")),
        "keyRevocationActionType": found.get("keyRevocationActionType", ""),
        "labelFingerprint": found.get("labelFingerprint", ""),
        "machineType": last(found.get("machineType", "")),
        "metadata": metadata or ({} if before.get("metadata") is not None else None),
        "metadataFingerprint": found.get("metadata", {}).get("fingerprint", ""),
        "metadataStartupScript": script,
        "minCpuPlatform": found.get("minCpuPlatform", ""),
        "name": found["name"],
        "networkInterfaces": [_told_interface(nic) for nic in found.get("networkInterfaces", [])],
        "project": project,
        "reservationAffinity": _told_affinity(affinity) if affinity else None,
        "resourcePolicies": found.get("resourcePolicies"),
        "scheduling": _told_scheduling(found.get("scheduling") or {}),
        "selfLink": v1(found.get("selfLink")),
        "serviceAccount": {"email": accounts[0]["email"], "scopes": sorted(accounts[0].get("scopes", []))} if accounts else None,
        "shieldedInstanceConfig": {key: bool(shielded.get(key)) for key in _SHIELDED} if shielded else None,
        "tags": terraform_order(found.get("tags", {}).get("items", [])) or None,
        "tagsFingerprint": found.get("tags", {}).get("fingerprint", ""),
        "zone": last(found.get("zone", "")),
    }


_SHIELDED = ("enableIntegrityMonitoring", "enableSecureBoot", "enableVtpm")


def _told_disk(attached: Mapping[str, Any], disk: Mapping[str, Any] | None, before: Mapping[str, Any]) -> Values:
    told: Values = {
        "autoDelete": bool(attached.get("autoDelete")),
        "deviceName": attached.get("deviceName", ""),
        "forceAttach": bool(before.get("forceAttach")),
        "guestOsFeatures": [feature["type"] for feature in attached.get("guestOsFeatures", [])],
        "interface": attached.get("interface") if before.get("interface") else None,
        "mode": attached.get("mode", ""),
        "source": v1(attached.get("source")),
        "initializeParams": before.get("initializeParams"),
    }
    if disk is not None:
        told["initializeParams"] = {
            "architecture": disk.get("architecture", ""),
            "enableConfidentialCompute": bool(disk.get("enableConfidentialCompute")),
            "image": disk.get("sourceImage", ""),
            "labels": dict(disk.get("labels") or {}),
            "provisionedIops": int(disk.get("provisionedIops") or 0),
            "provisionedThroughput": int(disk.get("provisionedThroughput") or 0),
            "size": int(disk.get("sizeGb") or 0),
            "storagePool": last(disk.get("storagePool", "")),
            "type": last(disk.get("type", "")),
        }
    return told


def _told_interface(nic: Mapping[str, Any]) -> Values:
    subnetwork = nic.get("subnetwork", "")
    return {
        "accessConfigs": [_told_access(access) for access in nic.get("accessConfigs") or []],
        "igmpQuery": nic.get("igmpQuery", ""),
        "internalIpv6PrefixLength": nic.get("internalIpv6PrefixLength", 0),
        "ipv6Address": nic.get("ipv6Address", ""),
        "macAddress": nic.get("macAddress", ""),
        "name": nic.get("name", ""),
        "network": v1(nic.get("network")),
        "networkIp": nic.get("networkIP", ""),
        "nicType": nic.get("nicType", ""),
        "stackType": nic.get("stackType", ""),
        "subnetwork": v1(subnetwork),
        "subnetworkProject": relative(subnetwork).split("/")[1] if "projects/" in subnetwork else "",
    }


def _told_access(access: Mapping[str, Any]) -> Values:
    return {
        "natIp": access.get("natIP", ""),
        "networkTier": access.get("networkTier", ""),
        "publicPtrDomainName": access.get("publicPtrDomainName", ""),
        "securityPolicy": access.get("securityPolicy", ""),
    }


def _told_affinity(affinity: Mapping[str, Any]) -> Values:
    specific = {"key": affinity["key"], "values": affinity.get("values", [])} if affinity.get("key") else None
    return {"type": affinity.get("consumeReservationType", ""), "specificReservation": specific}


def _told_scheduling(scheduling: Mapping[str, Any]) -> Values:
    graceful, stop = scheduling.get("gracefulShutdown"), scheduling.get("onInstanceStopAction")
    told = {
        "automaticRestart": bool(scheduling.get("automaticRestart")),
        "availabilityDomain": scheduling.get("availabilityDomain", 0),
        "gracefulShutdown": None,
        "hostErrorTimeoutSeconds": scheduling.get("hostErrorTimeoutSeconds") or 0,
        "instanceTerminationAction": scheduling.get("instanceTerminationAction") or "",
        "localSsdRecoveryTimeout": _told_period(scheduling.get("localSsdRecoveryTimeout")),
        "maintenanceInterval": scheduling.get("maintenanceInterval") or "",
        "maxRunDuration": _told_period(scheduling.get("maxRunDuration")),
        "minNodeCpus": scheduling.get("minNodeCpus") or 0,
        "nodeAffinities": _affinities(scheduling.get("nodeAffinities")),
        "onHostMaintenance": scheduling.get("onHostMaintenance") or "",
        "onInstanceStopAction": {"discardLocalSsd": bool(stop.get("discardLocalSsd"))} if stop else None,
        "preemptible": bool(scheduling.get("preemptible")),
        "preemptionNoticeDuration": _told_period(scheduling.get("preemptionNoticeDuration")),
        "provisioningModel": scheduling.get("provisioningModel") or "",
        "skipGuestOsShutdown": bool(scheduling.get("skipGuestOsShutdown")),
        "terminationTime": scheduling.get("terminationTime") or "",
    }
    if graceful:
        told["gracefulShutdown"] = {
            "enabled": bool(graceful.get("enabled")),
            "maxDuration": _told_period(graceful.get("maxDuration")),
        }
    return told


def _affinities(affinities: Sequence[Any] | None) -> list[Values]:
    return [dict(item) for item in affinities or [] if item]


def _told_period(period: Mapping[str, Any] | None) -> Values | None:
    return {"seconds": int(period.get("seconds") or 0), "nanos": int(period.get("nanos") or 0)} if period else None
