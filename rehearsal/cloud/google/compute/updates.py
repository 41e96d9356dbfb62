"""What can be changed on an instance while it lives, each against its fingerprint, and power."""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.cloud.google import billing
from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.compute import checks, lifecycle
from rehearsal.cloud.google.compute.instances import complete_access, metadata_value, path_of
from rehearsal.cloud.google.compute.scheduling import checked
from rehearsal.cloud.google.errors import condition_not_met, error, invalid
from rehearsal.cloud.google.operations import begin
from rehearsal.cloud.google.state import State, fingerprint, link


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


def stop(state: State, call: Call) -> Json:
    """Refused for TPU machines: they are deleted, not stopped."""
    path = path_of(call)
    value = checks.find(state, path)
    name = value["machineType"].rsplit("/", 1)[-1]
    row = state.inventory.machine_type(name, call.params["zone"])
    if row is not None and row.tpu:
        text = f"The instance '{value['name']}' of machine type {name} cannot be stopped. Delete it instead."
        raise error(400, "unsupportedOperation", text)
    return begin(state, call, path, "stop", then=lambda: lifecycle.stop(state, path), seconds=state.pace.stopping)


def start(state: State, call: Call) -> Json:
    """Provision again, on the same disks."""
    path = path_of(call)
    value = checks.find(state, path)
    if value["status"] != "TERMINATED":
        return begin(state, call, path, "start")

    def apply() -> None:
        value["status"] = "PROVISIONING"
        lifecycle.provision(state, path)

    return begin(state, call, path, "start", apply=apply, seconds=state.pace.provisioning + state.pace.staging)


def reset(state: State, call: Call) -> Json:
    """A power cut, and on again: same disk, same window."""
    path = path_of(call)
    checks.find(state, path)
    return begin(state, call, path, "reset", then=lambda: state.fleet.reset(path))


def _resource_path(call: Call) -> str:
    return f"projects/{call.params['project']}/zones/{call.params['zone']}/instances/{call.params['resource']}"


def guest_attributes(state: State, call: Call) -> Json:
    """By `queryPath` (`namespace/`) or `variableKey` (`namespace/key`)."""
    path = path_of(call)
    checks.find(state, path)
    stored = state.fleet.guest_attributes(path)
    answer: Json = {"kind": "compute#guestAttributes", "selfLink": link(f"{path}/guestAttributes/")}
    if key := call.query.get("variableKey"):
        namespace, _, name = key.partition("/")
        if (namespace, name) not in stored:
            raise _no_attribute(key)
        return answer | {"variableKey": key, "variableValue": stored[namespace, name]}
    query = call.query.get("queryPath", "")
    namespace, _, name = query.strip("/").partition("/")
    items = [
        {"namespace": ns, "key": k, "value": v}
        for (ns, k), v in sorted(stored.items())
        if namespace in ("", ns) and name in ("", k)
    ]
    if not items:
        raise _no_attribute(query)
    return answer | {"queryPath": query, "queryValue": {"items": items}}


def _no_attribute(query: str) -> Exception:
    return error(404, "notFound", f"The resource '{query}' of type 'Guest Attribute' was not found.")


def serial_port(state: State, call: Call) -> Json:
    """The console from byte `start` on; `next` is where to go on."""
    path = path_of(call)
    checks.find(state, path)
    data = state.fleet.console(path).encode()
    start = min(int(call.query.get("start") or 0), len(data))
    part = data[start : start + (1 << 20)]
    return {
        "kind": "compute#serialPortOutput",
        "contents": part.decode(errors="replace"),
        "start": str(start),
        "next": str(start + len(part)),
        "selfLink": link(f"{path}/serialPort"),
    }


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
    "compute.instances.stop": stop,
    "compute.instances.start": start,
    "compute.instances.reset": reset,
    "compute.instances.getGuestAttributes": guest_attributes,
    "compute.instances.getSerialPortOutput": serial_port,
}
