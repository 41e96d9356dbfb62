"""`compute.Instance`: the order of its requests, and the weaknesses that the official provider has with it.

A failed create leaves nothing in the state, a delete of a machine that is gone is an error, and a delete whose
operation ends in an error counts as deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers import diff as differ
from rehearsal.providers.google.compute import OperationFailed, act, compute, finish, found, operation_path
from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.google.labels import LABEL_MAPS, plan_labels
from rehearsal.providers.google.names import relative
from rehearsal.providers.google.resources.instance_body import (
    access_config,
    insert_body,
    metadata_body,
    present,
    scheduling_body,
    service_accounts,
    told,
)
from rehearsal.providers.google.resources.instance_table import FIELDS
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import terraform_order
from rehearsal.providers.values import Values
from rehearsal.providers.waits import NeverSeen, TimedOutWaiting, Waiter

UPDATE_TIMEOUT: Final = 1200.0  # seconds; the wait for RUNNING after a create uses it too
_FINGERPRINT_TRIES: Final = 3

_UPDATES: Final = LABEL_MAPS | {
    "allowStoppingForUpdate",
    "bootDisk.autoDelete",
    "bootDisk.initializeParams.labels",
    "bootDisk.initializeParams.size",
    "bootDisk.interface",
    "canIpForward",
    "deletionProtection",
    "description",
    "machineType",
    "metadata",
    "metadataStartupScript",
    "networkInterfaces",
    "scheduling",
    "serviceAccount",
    "shieldedInstanceConfig",
    "tags",
}

MUST_STOP: Final = (
    "Changing the machine_type, min_cpu_platform, service_account, enable_display, shielded_instance_config, "
    "scheduling.node_affinities, scheduling.max_run_duration or network_interface.[#d].(network/subnetwork/"
    "subnetwork_project) or advanced_machine_features on a started instance requires stopping it. To acknowledge this, "
    "please set allow_stopping_for_update = true in your config. You can also stop it by setting desired_status = "
    '"TERMINATED", but the instance will not be restarted after the update.'
)


def _create(call: Call[Google], planned: Values) -> tuple[str, Values]:
    api = call.api
    project, zone = planned.get("project") or api.config.project, planned.get("zone") or api.config.zone
    identifier = f"projects/{project}/zones/{zone}/instances/{planned['name']}"
    body = insert_body(project, zone, planned)
    act(call, "creating instance", "instance to create", "POST", identifier.rpartition("/")[0], body)
    _await_running(api, identifier)
    made = _read(call, identifier, planned)
    if made is None:
        raise ProviderError(f"expected non-nil error with nil state during Create of {identifier}")
    if not made["bootDisk"]["interface"]:
        made["bootDisk"]["interface"] = ""  # null after the next read or update: see `_extra`
    return identifier, made


def _await_running(api: Google, identifier: str) -> None:
    def look() -> tuple[Values | None, str]:
        instance = found(api, identifier, view="FULL")
        return instance, str((instance or {}).get("status", ""))

    try:
        Waiter("RUNNING", UPDATE_TIMEOUT, delay=5.0, floor=2.0).wait(look, api.sleep)
    except (NeverSeen, TimedOutWaiting) as error:
        raise ProviderError(
            f"Error waiting for status: Error waiting for instance to reach desired status RUNNING: {error}"
        ) from error


def _read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    instance = found(call.api, identifier, view="FULL")
    if instance is None:
        return None
    source = next((disk.get("source") for disk in instance.get("disks", []) if disk.get("boot")), None)
    disk = found(call.api, relative(source)) if source else None
    return told(identifier.split("/")[1], instance, disk, before)


def _import_state(call: Call[Google], identifier: str) -> Values:
    return {"eraseWindowsVssSignature": False, "deletionPolicy": "DELETE"}


def _update(call: Call[Google], identifier: str, change: Change) -> Values:
    instance = compute(call.api, "GET", identifier, view="FULL")
    for step in (_whole, _metadata, _tags, _labels, _scheduling):
        step(call, identifier, change)
    policies = _access_configs(call, identifier, change)
    _boot_disk(call, identifier, change)
    _deletion_protection(call, identifier, change)
    _with_the_machine_stopped(call, identifier, change, instance)
    if policies:
        body: Values = {"networkInterfaces": policies}
        act(
            call,
            "updating security policy",
            "security policy to update",
            "POST",
            f"{identifier}/setSecurityPolicy",
            body,
        )
    made = _read(call, identifier, change.planned)
    return made or {}


def _whole(call: Call[Google], identifier: str, change: Change) -> None:
    """What the API changes only by putting the whole instance in its place."""
    for name, value in (
        ("description", change.planned.get("description") or ""),
        ("canIpForward", change.planned.get("canIpForward")),
    ):
        if change.touches(name):
            body = compute(call.api, "GET", identifier, view="FULL") | {name: value}
            act(call, "updating instance", f"{name}, updating", "PUT", identifier, body)


def _metadata(call: Call[Google], identifier: str, change: Change) -> None:
    if not change.touches("metadata", "metadataStartupScript"):
        return
    for attempt in range(_FINGERPRINT_TRIES):
        now = compute(call.api, "GET", identifier, view="FULL")
        body = {"fingerprint": now.get("metadata", {}).get("fingerprint")} | metadata_body(change.planned)
        try:
            act(call, "updating metadata", "metadata to update", "POST", f"{identifier}/setMetadata", present(body))
            return
        except GoogleError as error:
            if error.status != 412 or attempt == _FINGERPRINT_TRIES - 1:
                raise


def _tags(call: Call[Google], identifier: str, change: Change) -> None:
    if change.touches("tags"):
        tags = terraform_order(change.planned.get("tags") or [])
        body = {"fingerprint": change.state.get("tagsFingerprint"), "items": tags}
        act(call, "updating tags", "tags to update", "POST", f"{identifier}/setTags", body)


def _labels(call: Call[Google], identifier: str, change: Change) -> None:
    if change.touches("effectiveLabels"):
        body = {
            "labelFingerprint": change.state.get("labelFingerprint"),
            "labels": change.planned.get("effectiveLabels") or {},
        }
        act(call, "updating labels", "labels to update", "POST", f"{identifier}/setLabels", body)


def _scheduling(call: Call[Google], identifier: str, change: Change) -> None:
    if change.touches("scheduling"):
        body = scheduling_body(change.planned.get("scheduling"))
        act(call, "updating scheduling policy", "scheduling policy update", "POST", f"{identifier}/setScheduling", body)


def _access_configs(call: Call[Google], identifier: str, change: Change) -> list[str]:
    """External addresses, taken away and given anew. Returns the interfaces whose security policy is to be set again."""
    touched: list[str] = []
    for index, nic in enumerate(change.planned.get("networkInterfaces") or []):
        path = f"networkInterfaces[{index}]"
        moved = change.touches(f"{path}.network", f"{path}.subnetwork", f"{path}.subnetworkProject")
        if moved or not change.touches(f"{path}.accessConfigs"):
            continue
        name = change.state["networkInterfaces"][index]["name"]
        for _ in change.state["networkInterfaces"][index].get("accessConfigs") or []:
            query = {"accessConfig": "External NAT", "networkInterface": name}
            what = "deleting old access_config"
            act(call, what, "old access_config to delete", "POST", f"{identifier}/deleteAccessConfig", **query)
        for access in nic.get("accessConfigs") or []:
            body, what = access_config(access), "adding new access_config"
            add = f"{identifier}/addAccessConfig"
            act(call, what, "new access_config to add", "POST", add, body, networkInterface=name)
        compute(call.api, "GET", identifier, view="FULL")
        touched.append(name)
    return touched


def _boot_disk(call: Call[Google], identifier: str, change: Change) -> None:
    disk = change.state.get("bootDisk") or {}
    wanted = change.planned.get("bootDisk") or {}
    if change.touches("bootDisk"):
        path = relative(disk["source"])
        now = compute(call.api, "GET", path)
        if change.touches("bootDisk.initializeParams.size"):
            body: Values = {"sizeGb": str(wanted["initializeParams"]["size"])}
            act(call, "updating disk", "disk to update", "POST", f"{path}/resize", body)
        if change.touches("bootDisk.initializeParams.labels"):
            body = {"labels": wanted["initializeParams"]["labels"], "labelFingerprint": now.get("labelFingerprint")}
            act(call, "updating disk", "disk to update", "POST", f"{path}/setLabels", body)
    if change.touches("bootDisk.autoDelete"):
        query: Values = {"autoDelete": str(bool(wanted.get("autoDelete"))).lower(), "deviceName": disk.get("deviceName", "")}
        act(call, "changing auto_delete", "changing auto_delete", "POST", f"{identifier}/setDiskAutoDelete", **query)


def _deletion_protection(call: Call[Google], identifier: str, change: Change) -> None:
    if change.touches("deletionProtection"):
        query: Values = {"deletionProtection": str(bool(change.planned.get("deletionProtection"))).lower()}
        what = "updating deletion protection flag"
        act(call, what, "deletion protection to update", "POST", f"{identifier}/setDeletionProtection", **query)


def _with_the_machine_stopped(call: Call[Google], identifier: str, change: Change, instance: Mapping[str, Any]) -> None:
    """What cannot be changed while it runs. Raises unless the program allows a stop."""
    interfaces = any(
        path.startswith("networkInterfaces[") and path.rpartition(".")[2] in ("network", "subnetwork", "subnetworkProject")
        for path in change.paths
    )
    stopped_only = ("machineType", "minCpuPlatform", "serviceAccount", "enableDisplay", "shieldedInstanceConfig")
    if not interfaces and not change.touches(*stopped_only, "advancedMachineFeatures", "scheduling.nodeAffinities"):
        return
    if instance.get("status") == "RUNNING" and not change.planned.get("allowStoppingForUpdate"):
        raise ProviderError(MUST_STOP)
    if interfaces or change.touches("minCpuPlatform", "enableDisplay", "advancedMachineFeatures", "scheduling.nodeAffinities"):
        raise ProviderError("the stand-in provider does not stop a machine for this change")
    if instance.get("status") == "RUNNING":
        act(call, "stopping instance", "stopping instance", "POST", f"{identifier}/stop")
    planned = change.planned
    if change.touches("machineType"):
        zone = identifier.rpartition("/instances/")[0]
        body: Values = {"machineType": f"{zone}/machineTypes/{planned['machineType'].rpartition('/')[2]}"}
        act(call, "updating machine type", "updating machinetype", "POST", f"{identifier}/setMachineType", body)
    if change.touches("serviceAccount"):
        account = (service_accounts(planned.get("serviceAccount")) or [{"email": ""}])[0]
        act(
            call,
            "updating service account",
            "updating service account",
            "POST",
            f"{identifier}/setServiceAccount",
            account,
        )
    if change.touches("shieldedInstanceConfig"):
        body = dict(planned.get("shieldedInstanceConfig") or {})
        path = f"{identifier}/updateShieldedInstanceConfig"
        act(call, "updating shielded instance config", "shielded vm config update", "PATCH", path, body)
    act(call, "starting instance", "starting instance", "POST", f"{identifier}/start")


def _delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    if state.get("deletionProtection"):
        raise ProviderError(
            f"Cannot delete instance {state['name']}: instance Deletion Protection is enabled. Set deletion_protection to "
            'false for this resource and run "terraform apply" before attempting to delete it.'
        )
    try:
        operation = compute(call.api, "DELETE", identifier)
    except GoogleError as error:
        raise ProviderError(f"Error deleting instance: {error}") from error
    _finish_delete(call, operation)


def _finish_delete(call: Call[Google], operation: Values) -> None:
    """Wait for the delete. An operation that is over counts as deleted, whatever it says of an error."""
    try:
        finish(call, operation, "instance to delete")
    except OperationFailed:
        if compute(call.api, "GET", operation_path(call.api, operation)).get("status") != "DONE":
            raise


def _customize(api: Google, state: Mapping[str, Any] | None, planned: Values) -> Values:
    return plan_labels(api, state, planned)


def _extra(api: Google, state: Mapping[str, Any], planned: Mapping[str, Any], changes: differ.Changes) -> differ.Changes:
    """Two changes that no single property accounts for.

    A startup script that moves into its own property replaces. And after a create that nothing has read back yet, a
    plan with any other change also drops the boot disk's empty interface (recorded: `~bootDisk` in 33, 34 and 93).
    """
    if changes and (state.get("bootDisk") or {}).get("interface") == "":
        changes = changes | {"bootDisk.interface": differ.Change.DELETE}
    if any(path == "metadataStartupScript" for path in changes) and not _graceful_switch(state, planned):
        changes = differ.must_replace(changes)
    return changes


def _graceful_switch(state: Mapping[str, Any], planned: Mapping[str, Any]) -> bool:
    """Whether the script only moves between `metadata` and its own property, unchanged."""
    old, new = state.get("metadataStartupScript"), planned.get("metadataStartupScript")
    before, after = (values.get("metadata") or {} for values in (state, planned))
    if not old:
        return "startup-script" in before and bool(new == before["startup-script"])
    if not new:
        return "startup-script" in after and bool(old == after["startup-script"])
    return False


RESOURCES: Final = [
    Resource(
        token="gcp:compute/instance:Instance",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=_UPDATES,
        delete=_delete,
        timeouts={"create": 1200.0, "delete": 1200.0, "update": UPDATE_TIMEOUT},
        schema_version=6,
        import_state=_import_state,
        customize=_customize,
        extra=_extra,
    )
]
