"""Zones, regions, machine types, disk types, images and the project: what is there before anything is made."""

from __future__ import annotations

from rehearsal.cloud.google.call import Call, Json, scope_of
from rehearsal.cloud.google.compute.checks import own_project, place
from rehearsal.cloud.google.errors import not_found
from rehearsal.cloud.google.inventory import Image, MachineType, region_of
from rehearsal.cloud.google.listing import filtered, listed
from rehearsal.cloud.google.state import NO_LABELS, State, link

BORN = "2026-01-01T00:00:00.000-00:00"


def _stable_id(text: str) -> str:
    return str(10**18 + sum(ord(c) * 131**i for i, c in enumerate(text)) % (8 * 10**18))


def zone(state: State, name: str) -> Json:
    """A zone as answered."""
    path = f"projects/{state.project}/zones/{name}"
    region = link(f"projects/{state.project}/regions/{region_of(name)}")
    return {
        "kind": "compute#zone",
        "id": _stable_id(name),
        "creationTimestamp": BORN,
        "name": name,
        "description": name,
        "status": "UP",
        "region": region,
        "selfLink": link(path),
        "supportsPzs": False,
    }


def region(state: State, name: str) -> Json:
    """A region as answered.

    Its quotas are left out: those that a TPU spends are not among them in Google's answer either.
    """
    path = f"projects/{state.project}/regions/{name}"
    zones = [link(f"projects/{state.project}/zones/{z}") for z in state.inventory.zones if region_of(z) == name]
    return {
        "kind": "compute#region",
        "id": _stable_id(name),
        "creationTimestamp": BORN,
        "name": name,
        "description": name,
        "status": "UP",
        "zones": zones,
        "selfLink": link(path),
        "supportsPzs": False,
    }


def machine_type(state: State, row: MachineType, where: str) -> Json:
    """A machine type as answered."""
    path = f"projects/{state.project}/zones/{where}/machineTypes/{row.name}"
    return {
        "kind": "compute#machineType",
        "id": _stable_id(row.name),
        "creationTimestamp": BORN,
        "name": row.name,
        "description": f"{row.vcpu} vCPUs, {row.memory_mb // 1024} GB RAM",
        "guestCpus": row.vcpu,
        "memoryMb": row.memory_mb,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "zone": where,
        "isSharedCpu": False,
        "architecture": "X86_64",
        "selfLink": link(path),
    }


def disk_type(state: State, name: str, where: str) -> Json:
    """A disk type as answered."""
    scope = f"projects/{state.project}/zones/{where}"
    return {
        "kind": "compute#diskType",
        "id": _stable_id(name),
        "creationTimestamp": BORN,
        "name": name,
        "description": name,
        "defaultDiskSizeGb": "100",
        "zone": link(scope),
        "selfLink": link(f"{scope}/diskTypes/{name}"),
    }


def image(row: Image) -> Json:
    """An image as answered."""
    path = f"projects/{row.project}/global/images/{row.name}"
    return {
        "kind": "compute#image",
        "id": _stable_id(path),
        "creationTimestamp": BORN,
        "name": row.name,
        "family": row.family,
        "description": row.family,
        "status": "READY",
        "sourceType": "RAW",
        "diskSizeGb": str(row.disk_gb),
        "archiveSizeBytes": str(row.disk_gb << 28),
        "architecture": "X86_64",
        "labelFingerprint": NO_LABELS,
        "storageLocations": ["us"],
        "selfLink": link(path),
    }


def zones_get(state: State, call: Call) -> Json:
    """One zone."""
    own_project(state, call)
    if call.params["zone"] not in state.inventory.zones:
        raise not_found(scope_of(call.params))
    return zone(state, call.params["zone"])


def zones_list(state: State, call: Call) -> Json:
    """All zones."""
    own_project(state, call)
    return listed("compute#zoneList", [zone(state, z) for z in state.inventory.zones], call)


def regions_get(state: State, call: Call) -> Json:
    """One region."""
    own_project(state, call)
    if call.params["region"] not in state.inventory.regions:
        raise not_found(scope_of(call.params))
    return region(state, call.params["region"])


def regions_list(state: State, call: Call) -> Json:
    """All regions."""
    own_project(state, call)
    return listed("compute#regionList", [region(state, r) for r in state.inventory.regions], call)


def machine_types_get(state: State, call: Call) -> Json:
    """One machine type in a zone."""
    own_project(state, call)
    row = state.inventory.machine_type(call.params["machineType"], call.params["zone"])
    if row is None:
        raise not_found(f"{scope_of(call.params)}/machineTypes/{call.params['machineType']}")
    return machine_type(state, row, call.params["zone"])


def machine_types_list(state: State, call: Call) -> Json:
    """All machine types in a zone."""
    own_project(state, call)
    place(state, call)
    where = call.params["zone"]
    rows = [machine_type(state, m, where) for m in state.inventory.machine_types if where in m.zones]
    return listed("compute#machineTypeList", rows, call)


def machine_types_aggregated(state: State, call: Call) -> Json:
    """Where each machine type is offered."""
    own_project(state, call)
    items = {}
    for where in state.inventory.zones:
        rows = [machine_type(state, m, where) for m in state.inventory.machine_types if where in m.zones]
        found = filtered(rows, call)
        if found:
            items[f"zones/{where}"] = {"machineTypes": found}
    return {"kind": "compute#machineTypeAggregatedList", "id": call.path, "items": items}


def disk_types_get(state: State, call: Call) -> Json:
    """One disk type in a zone."""
    own_project(state, call)
    place(state, call)
    if call.params["diskType"] not in state.inventory.disk_types:
        raise not_found(f"{scope_of(call.params)}/diskTypes/{call.params['diskType']}")
    return disk_type(state, call.params["diskType"], call.params["zone"])


def disk_types_list(state: State, call: Call) -> Json:
    """All disk types in a zone."""
    own_project(state, call)
    place(state, call)
    return listed("compute#diskTypeList", [disk_type(state, d, call.params["zone"]) for d in state.inventory.disk_types], call)


def images_get(state: State, call: Call) -> Json:
    """One image of any project."""
    row = state.inventory.image(call.params["project"], call.params["image"])
    if row is None:
        raise not_found(f"projects/{call.params['project']}/global/images/{call.params['image']}")
    return image(row)


def images_family(state: State, call: Call) -> Json:
    """The newest image of a family."""
    row = state.inventory.family(call.params["project"], call.params["family"])
    if row is None:
        raise not_found(f"projects/{call.params['project']}/global/images/family/{call.params['family']}")
    return image(row)


def images_list(state: State, call: Call) -> Json:
    """Images of one project."""
    return listed("compute#imageList", [image(i) for i in state.inventory.images if i.project == call.params["project"]], call)


def project_get(state: State, call: Call) -> Json:
    """The project, as gcloud asks for it (ssh keys in common metadata)."""
    own_project(state, call)
    return {
        "kind": "compute#project",
        "id": state.number,
        "creationTimestamp": BORN,
        "name": state.project,
        "commonInstanceMetadata": {"kind": "compute#metadata", "fingerprint": NO_LABELS},
        "defaultServiceAccount": f"{state.number}-compute@developer.gserviceaccount.com",
        "selfLink": link(f"projects/{state.project}"),
    }


HANDLERS = {
    "compute.zones.get": zones_get,
    "compute.zones.list": zones_list,
    "compute.regions.get": regions_get,
    "compute.regions.list": regions_list,
    "compute.machineTypes.get": machine_types_get,
    "compute.machineTypes.list": machine_types_list,
    "compute.machineTypes.aggregatedList": machine_types_aggregated,
    "compute.diskTypes.get": disk_types_get,
    "compute.diskTypes.list": disk_types_list,
    "compute.images.get": images_get,
    "compute.images.getFromFamily": images_family,
    "compute.images.list": images_list,
    "compute.projects.get": project_get,
}
