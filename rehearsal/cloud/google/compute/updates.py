"""What can be changed on an instance while it lives, each against its fingerprint."""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.cloud.google import billing
from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.compute import checks
from rehearsal.cloud.google.compute.instances import complete_access, metadata_value, path_of
from rehearsal.cloud.google.compute.scheduling import checked
from rehearsal.cloud.google.errors import condition_not_met, invalid
from rehearsal.cloud.google.operations import begin
from rehearsal.cloud.google.state import State, fingerprint


def _change(state: State, call: Call, change: Callable[[Json], None], kind: str | None = None) -> Json:
    path = path_of(call)
    value = checks.find(state, path)
    return begin(state, call, path, kind or call.verb, apply=lambda: change(value))


def set_metadata(state: State, call: Call) -> Json:
    """All items at once; the machine sees the change at once."""
    value = checks.find(state, path_of(call))
    checks.metadata(call.body)
    if call.body.get("fingerprint") != value["metadata"]["fingerprint"]:
        raise condition_not_met("metadata")

    def change(instance: Json) -> None:
        instance["metadata"] = metadata_value(call.body)
        state.fleet.changed(path_of(call))

    return _change(state, call, change)


def set_labels(state: State, call: Call) -> Json:
    """All labels at once."""
    value = checks.find(state, path_of(call))
    checks.labels(call.body.get("labels"))
    if call.body.get("labelFingerprint") != value["labelFingerprint"]:
        raise condition_not_met("labels")

    def change(instance: Json) -> None:
        labels = call.body.get("labels", {})
        instance.update(labels=labels, labelFingerprint=fingerprint(labels))
        billing.relabelled(state, instance)

    return _change(state, call, change)


def set_tags(state: State, call: Call) -> Json:
    """All network tags at once."""
    value = checks.find(state, path_of(call))
    if call.body.get("fingerprint") != value["tags"]["fingerprint"]:
        raise condition_not_met("tags")
    items = call.body.get("items", [])
    return _change(state, call, lambda v: v.update(tags={"items": items, "fingerprint": fingerprint(items)}))


def set_scheduling(state: State, call: Call) -> Json:
    """The whole block. The provisioning model and the window of a live instance stay what they are."""
    value = checks.find(state, path_of(call))
    row = state.inventory.machine_type(value["machineType"].rsplit("/", 1)[-1], call.params["zone"])
    assert row is not None, "an instance of an unknown machine type cannot exist"
    old = value["scheduling"]
    if call.body.get("provisioningModel", old["provisioningModel"]) != old["provisioningModel"]:
        raise invalid("resource.scheduling.provisioningModel", call.body["provisioningModel"], "Cannot be changed.")
    if value["status"] == "RUNNING" and call.body.get("maxRunDuration", {}) != old.get("maxRunDuration", {}):
        raise invalid("resource.scheduling.maxRunDuration", "", "Cannot be changed while the instance is running.")
    wanted = dict(call.body)
    action = wanted.pop("instanceTerminationAction", "DELETE") if old["provisioningModel"] == "FLEX_START" else None
    new = checked(wanted | ({"instanceTerminationAction": "DELETE"} if action else {}), row)
    if action:
        new["instanceTerminationAction"] = action  # STOP is taken here: the check at insert is the stricter one
    return _change(state, call, lambda v: v.update(scheduling=new))


def _nic(state: State, call: Call) -> Json:
    value, name = checks.find(state, path_of(call)), call.query.get("networkInterface", "nic0")
    found: Json | None = next((nic for nic in value["networkInterfaces"] if nic["name"] == name), None)
    if found is None:
        raise invalid("networkInterface", name, "The referenced network interface cannot be found.")
    return found


def add_access_config(state: State, call: Call) -> Json:
    """An external address."""
    nic = _nic(state, call)
    if nic.get("accessConfigs"):
        raise invalid("resource.accessConfigs", nic["name"], "At most one access config currently supported.")

    def change(instance: Json) -> None:
        access = dict(call.body)
        complete_access(access)
        access.setdefault("natIP", state.fleet.addresses.take())
        nic["accessConfigs"] = [access]
        billing.external_on(state, instance, nic)
        state.fleet.changed(path_of(call))

    return _change(state, call, change)


def delete_access_config(state: State, call: Call) -> Json:
    """Take the external address away."""
    nic = _nic(state, call)
    names = [access["name"] for access in nic.get("accessConfigs", [])]
    if call.query.get("accessConfig") not in names:
        raise invalid("accessConfig", call.query.get("accessConfig"), "The referenced access config cannot be found.")

    def change(instance: Json) -> None:
        for access in nic.pop("accessConfigs", []):
            state.fleet.addresses.give_back(access.get("natIP", ""))
        billing.external_off(state, instance, nic)
        state.fleet.changed(path_of(call))

    return _change(state, call, change)


def set_deletion_protection(state: State, call: Call) -> Json:
    """By query parameter; true when it is left out."""
    path = _resource_path(call)
    value = checks.find(state, path)
    wanted = call.query.get("deletionProtection", "true").lower() == "true"
    return begin(state, call, path, call.verb, apply=lambda: value.update(deletionProtection=wanted))


def set_disk_auto_delete(state: State, call: Call) -> Json:
    """Whether a disk goes with its instance."""

    def change(instance: Json) -> None:
        for disk in instance["disks"]:
            if disk["deviceName"] == call.query.get("deviceName"):
                disk["autoDelete"] = call.query.get("autoDelete", "").lower() == "true"

    return _change(state, call, change)


def nothing(state: State, call: Call) -> Json:
    """Accepted, and without any effect on what the local cloud models (security policies)."""
    return _change(state, call, lambda _: None)


def _stopped(state: State, call: Call, why: str) -> None:
    if checks.find(state, path_of(call))["status"] != "TERMINATED":
        raise invalid("status", "RUNNING", why)


def set_machine_type(state: State, call: Call) -> Json:
    """Only of a stopped instance."""
    _stopped(state, call, "Machine type cannot be changed on a running instance.")
    return _change(state, call, lambda v: v.update(machineType=call.body["machineType"]))


def set_service_account(state: State, call: Call) -> Json:
    """Only of a stopped instance."""
    _stopped(state, call, "Service account cannot be changed on a running instance.")
    return _change(state, call, lambda v: v.update(serviceAccounts=[call.body]))


def _resource_path(call: Call) -> str:
    return f"projects/{call.params['project']}/zones/{call.params['zone']}/instances/{call.params['resource']}"


HANDLERS = {
    "compute.instances.setMetadata": set_metadata,
    "compute.instances.setLabels": set_labels,
    "compute.instances.setTags": set_tags,
    "compute.instances.setScheduling": set_scheduling,
    "compute.instances.addAccessConfig": add_access_config,
    "compute.instances.deleteAccessConfig": delete_access_config,
    "compute.instances.setDeletionProtection": set_deletion_protection,
    "compute.instances.setDiskAutoDelete": set_disk_auto_delete,
    "compute.instances.setSecurityPolicy": nothing,
    "compute.instances.setMachineType": set_machine_type,
    "compute.instances.setServiceAccount": set_service_account,
}
