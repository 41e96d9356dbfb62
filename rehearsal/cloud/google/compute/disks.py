"""Disks: those that an instance brings along, and those on their own."""

from __future__ import annotations

import ipaddress

from rehearsal.cloud.google import billing
from rehearsal.cloud.google.call import Call, Json, scope_of
from rehearsal.cloud.google.compute import checks
from rehearsal.cloud.google.errors import condition_not_met, exists, in_use, invalid
from rehearsal.cloud.google.inventory import Image, MachineType
from rehearsal.cloud.google.listing import aggregated, listed
from rehearsal.cloud.google.operations import begin
from rehearsal.cloud.google.state import LINK, State, fingerprint, link, new_id, resolve, unlink

COLLECTION = "disks"
ATTACHED = "resource.disks[{}]"


def path_of(call: Call) -> str:
    """The disk that a call names."""
    return f"{scope_of(call.params)}/{COLLECTION}/{call.params['disk']}"


def source_image(state: State, given: str, field: str) -> Image:
    """The image that a reference means, families resolved."""
    path = resolve(given, state.project).split("/")
    row = None
    if len(path) >= 5 and path[0] == "projects" and path[3] == "images":
        look = state.inventory.family if path[4] == "family" else state.inventory.image
        row = look(path[1], path[-1])
    if row is None:
        raise invalid(field, given, "The referenced image resource cannot be found.")
    return row


def planned(state: State, call: Call, machine: MachineType) -> list[Json]:
    """The disks in an instance's body, each with its path (`_path`) and, where it is to be made, the disk (`_disk`)."""
    given = call.body.get("disks", [])
    if not any(disk.get("boot") for disk in given):
        raise invalid("resource.disks", "", "At least one boot disk is required.")
    return [_planned(state, call, machine, index, dict(disk)) for index, disk in enumerate(given)]


def _planned(state: State, call: Call, machine: MachineType, index: int, disk: Json) -> Json:
    field, zone = ATTACHED.format(index), scope_of(call.params)
    if disk.get("source"):
        path = resolve(str(disk["source"]), state.project, f"zones/{call.params['zone']}/{COLLECTION}")
        existing = checks.find(state, path)
        if existing.get("users"):
            raise in_use("disk", path, unlink(existing["users"][0]))
        return disk | {"_path": path}
    how = disk.pop("initializeParams", {})
    name = how.get("diskName") or (call.body["name"] if disk.get("boot") else f"{call.body['name']}-{index}")
    path = f"{zone}/{COLLECTION}/{name}"
    if path in state.compute:
        raise exists(path)
    kind = str(how.get("diskType") or machine.boot_disks[0]).rsplit("/", 1)[-1]
    if kind not in state.inventory.disk_types:
        raise invalid(f"{field}.initializeParams.diskType", how.get("diskType"), "The referenced disk type cannot be found.")
    if kind not in machine.boot_disks:
        text = f"[{kind}] features are not compatible for creating instance with machine type {machine.name}."
        raise invalid(f"{field}.initializeParams.diskType", how.get("diskType"), text)
    size = int(how.get("diskSizeGb") or disk.get("diskSizeGb") or 0)
    value = new_disk(state, path, kind, size, how.get("sourceImage"), f"{field}.initializeParams")
    if how.get("labels"):
        checks.labels(how["labels"])
        value.update(labels=how["labels"], labelFingerprint=fingerprint(how["labels"]))
    return disk | {"_path": path, "_disk": value}


def new_disk(state: State, path: str, kind: str, size_gb: int, image: str | None, field: str) -> Json:
    """A disk as stored; not yet there. Without a size it is as large as its image, or 10 GB."""
    zone = path.rsplit(f"/{COLLECTION}/", 1)[0]
    value: Json = {
        "kind": "compute#disk",
        "id": new_id(),
        "creationTimestamp": state.stamp(),
        "name": path.rsplit("/", 1)[-1],
        "status": "READY",
        "selfLink": link(path),
        "zone": link(zone),
        "type": link(f"{zone}/diskTypes/{kind}"),
        "labelFingerprint": fingerprint(None),
        "physicalBlockSizeBytes": "4096",
    }
    smallest = 1
    if image:
        row = source_image(state, image, f"{field}.sourceImage")
        smallest = row.disk_gb
        value["sourceImage"] = f"{LINK}projects/{row.project}/global/images/{row.name}"
    if 0 < size_gb < smallest:
        text = f"Requested disk size cannot be smaller than the image size ({smallest} GB)"
        raise invalid(f"{field}.diskSizeGb", size_gb, text)
    value["sizeGb"] = str(size_gb or max(smallest, 10))
    return value


def made(state: State, wanted: list[Json], instance: str) -> list[Json]:
    """Make the planned disks and attach all to `instance` (a path); the instance's own `disks`."""
    attached = []
    for index, plan in enumerate(wanted):
        path = plan.pop("_path")
        if (new := plan.pop("_disk", None)) is not None:
            state.compute[path] = new
            billing.disk_created(state, new)
        disk = state.compute[path]
        disk.update(users=[link(instance)], lastAttachTimestamp=state.stamp())
        defaults: Json = {
            "deviceName": f"persistent-disk-{index}",
            "mode": "READ_WRITE",
            "interface": "SCSI",
            "autoDelete": False,
            "boot": False,
        }
        attached.append(
            defaults
            | plan
            | {
                "kind": "compute#attachedDisk",
                "type": "PERSISTENT",
                "source": link(path),
                "index": index,
                "diskSizeGb": disk["sizeGb"],
            }
        )
    return attached


def released(state: State, instance: Json) -> None:
    """The instance is gone: its auto-delete disks go too, the others are free again."""
    for attached in instance.get("disks", []):
        path = unlink(attached["source"])
        disk = state.compute.get(path)
        if disk is None:
            continue
        if attached.get("autoDelete"):
            remove(state, path)
        else:
            disk.pop("users", None)
            disk["lastDetachTimestamp"] = state.stamp()


def remove(state: State, path: str) -> None:
    """Gone, and off the bill."""
    disk = state.compute.pop(path, None)
    if disk is not None:
        billing.disk_deleted(state, disk)


def next_ip(state: State, cidr: str) -> str:
    """A free internal address of the subnetwork."""
    taken = {n.get("networkIP") for v in state.compute.values() for n in v.get("networkInterfaces", [])}
    hosts = ipaddress.ip_network(cidr).hosts()
    next(hosts)  # the gateway's
    return next(str(h) for h in hosts if str(h) not in taken)


def insert(state: State, call: Call) -> Json:
    """A disk on its own."""
    checks.own_project(state, call)
    checks.place(state, call)
    path = checks.new_path(state, call, COLLECTION)
    checks.labels(call.body.get("labels"))
    kind = str(call.body.get("type") or "pd-standard").rsplit("/", 1)[-1]
    if kind not in state.inventory.disk_types:
        raise invalid("resource.type", call.body.get("type"), "The referenced disk type cannot be found.")
    image = call.query.get("sourceImage") or call.body.get("sourceImage")
    value = new_disk(state, path, kind, int(call.body.get("sizeGb", 0)), image, "resource")
    value |= {k: v for k, v in call.body.items() if k in ("description", "labels")}
    value["labelFingerprint"] = fingerprint(value.get("labels"))

    def apply() -> None:
        state.compute[path] = value
        billing.disk_created(state, value)

    return begin(state, call, path, "insert", apply=apply)


def get(state: State, call: Call) -> Json:
    """The disk."""
    checks.own_project(state, call)
    return checks.find(state, path_of(call))


def list_(state: State, call: Call) -> Json:
    """Those of a zone."""
    checks.own_project(state, call)
    checks.place(state, call)
    return listed("compute#diskList", list(state.children(f"{scope_of(call.params)}/{COLLECTION}/")), call)


def aggregated_list(state: State, call: Call) -> Json:
    """Those of every zone."""
    checks.own_project(state, call)
    return aggregated(state, call, COLLECTION, "compute#diskAggregatedList")


def delete(state: State, call: Call) -> Json:
    """Refused while an instance uses it."""
    checks.own_project(state, call)
    path = path_of(call)
    disk = checks.find(state, path)
    if disk.get("users"):
        raise in_use("disk", path, unlink(disk["users"][0]))
    return begin(state, call, path, "delete", apply=lambda: remove(state, path))


def resize(state: State, call: Call) -> Json:
    """Only ever larger."""
    checks.own_project(state, call)
    path = path_of(call)
    disk, size = checks.find(state, path), int(call.body.get("sizeGb", 0))
    if size < int(disk["sizeGb"]):
        raise invalid("sizeGb", size, f"New disk size '{size}' must be larger than existing size '{disk['sizeGb']}'.")

    def apply() -> None:
        disk["sizeGb"] = str(size)
        billing.disk_deleted(state, disk)
        billing.disk_created(state, disk)

    return begin(state, call, path, "resizeDisk", apply=apply)


def set_labels(state: State, call: Call) -> Json:
    """All labels at once, against their fingerprint."""
    checks.own_project(state, call)
    path = f"{scope_of(call.params)}/{COLLECTION}/{call.params['resource']}"
    disk = checks.find(state, path)
    checks.labels(call.body.get("labels"))
    if call.body.get("labelFingerprint") != disk["labelFingerprint"]:
        raise condition_not_met("labels")
    labels = call.body.get("labels", {})

    def apply() -> None:
        disk.update(labels=labels, labelFingerprint=fingerprint(labels))
        state.ledger.relabelled("disk", disk["name"], billing.place_of(disk), labels)

    return begin(state, call, path, "setLabels", apply=apply)


HANDLERS = {
    "compute.disks.insert": insert,
    "compute.disks.get": get,
    "compute.disks.list": list_,
    "compute.disks.aggregatedList": aggregated_list,
    "compute.disks.delete": delete,
    "compute.disks.resize": resize,
    "compute.disks.setLabels": set_labels,
}
