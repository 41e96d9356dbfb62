"""Instances: insert with the checks that Google makes at once, get, list, delete."""

from __future__ import annotations

from rehearsal.cloud.google.call import Call, Json, scope_of
from rehearsal.cloud.google.compute import checks, disks, lifecycle, queue, scheduling
from rehearsal.cloud.google.errors import error, invalid
from rehearsal.cloud.google.inventory import MachineType, region_of
from rehearsal.cloud.google.listing import aggregated, listed
from rehearsal.cloud.google.operations import begin
from rehearsal.cloud.google.state import State, fingerprint, link, new_id, resolve

COLLECTION = "instances"


def path_of(call: Call) -> str:
    """The instance that a call names."""
    return f"{scope_of(call.params)}/{COLLECTION}/{call.params['instance']}"


def insert(state: State, call: Call) -> Json:
    """Check, then provision: the operation is DONE when the machine is RUNNING."""
    checks.own_project(state, call)
    checks.place(state, call)
    path = checks.new_path(state, call, COLLECTION)
    machine = _machine_type(state, call)
    checks.labels(call.body.get("labels"))
    checks.metadata(call.body.get("metadata", {}))
    queue.wait_seconds(call.body.get("params", {}))
    rules = scheduling.checked(call.body.get("scheduling", {}), machine)
    wanted = disks.planned(state, call, machine)
    nics = [_nic(state, call, index, nic) for index, nic in enumerate(call.body.get("networkInterfaces", []))]
    if not nics:
        raise invalid("resource.networkInterfaces", "", "At least one network interface is required.")
    _accounts_exist(state, call)
    value = _instance(state, call, path, rules, nics)

    def apply() -> None:
        value["disks"] = disks.made(state, wanted, path)
        for nic in nics:
            for access in nic.get("accessConfigs", []):
                access.setdefault("natIP", state.fleet.addresses.take())
        state.compute[path] = value
        lifecycle.provision(state, path)

    doom = call.doom()
    if doom is not None and doom.capacity and queue.wait_seconds(call.body.get("params", {})):
        return queue.enqueue(state, call, path, value, apply, doom)
    return begin(state, call, path, "insert", apply=apply, seconds=state.pace.provisioning + state.pace.staging)


def _machine_type(state: State, call: Call) -> MachineType:
    given, zone = str(call.body.get("machineType", "")), call.params["zone"]
    name = given.rsplit("/", 1)[-1]
    row = state.inventory.machine_type(name, zone)
    if row is None:
        raise invalid("resource.machineType", given, f"Machine type with name '{name}' does not exist in zone '{zone}'.")
    return row


def _nic(state: State, call: Call, index: int, given: Json) -> Json:
    nic, region = dict(given), region_of(call.params["zone"])
    field = f"resource.networkInterfaces[{index}]"
    if nic.get("subnetwork"):
        path = resolve(str(nic["subnetwork"]), state.project, f"regions/{region}/subnetworks")
        if path not in state.compute:
            raise invalid(f"{field}.subnetwork", nic["subnetwork"], "The referenced subnetwork resource cannot be found.")
        nic["network"] = state.compute[path]["network"]
    else:
        network = resolve(str(nic.get("network") or "global/networks/default"), state.project, "global/networks")
        if network not in state.compute:
            raise invalid(f"{field}.network", nic.get("network"), "The referenced network resource cannot be found.")
        nic["network"] = link(network)
        path = next(
            (p for p, s in state.compute.items() if f"/regions/{region}/subnetworks/" in p and s["network"] == link(network)),
            "",
        )
        if not path or not state.compute[network].get("autoCreateSubnetworks"):
            raise invalid(field, "", "Subnetwork should be specified for custom subnetmode network")
    nic.update(
        kind="compute#networkInterface",
        name=f"nic{index}",
        subnetwork=link(path),
        fingerprint=fingerprint([path, index]),
    )
    nic.setdefault("networkIP", disks.next_ip(state, state.compute[path]["ipCidrRange"]))
    nic.setdefault("stackType", "IPV4_ONLY")
    for access in nic.get("accessConfigs", []):
        complete_access(access)
    return nic


def complete_access(access: Json) -> None:
    """Google's defaults of an access config; the address comes when it is put to use."""
    access.update(kind="compute#accessConfig")
    for key, default in (("type", "ONE_TO_ONE_NAT"), ("name", "External NAT"), ("networkTier", "PREMIUM")):
        access.setdefault(key, default)


def _accounts_exist(state: State, call: Call) -> None:
    for account in call.body.get("serviceAccounts", []):
        email = account.get("email", "default")
        if email != "default" and email not in state.accounts:
            path = f"projects/{state.project}/serviceAccounts/{email}"
            raise error(404, "notFound", f"The resource '{path}' of type 'serviceAccount' was not found.")


def _instance(state: State, call: Call, path: str, rules: Json, nics: list[Json]) -> Json:
    body, zone = call.body, call.params["zone"]
    machine = str(body["machineType"]).rsplit("/", 1)[-1]
    value: Json = {k: v for k, v in body.items() if k not in ("params", "disks", "sourceMachineImage")} | {
        "kind": "compute#instance",
        "id": new_id(),
        "creationTimestamp": state.stamp(),
        "status": "PROVISIONING",
        "selfLink": link(path),
        "zone": link(scope_of(call.params)),
        "cpuPlatform": "Unknown CPU Platform",
        "machineType": link(f"projects/{state.project}/zones/{zone}/machineTypes/{machine}"),
        "labelFingerprint": fingerprint(body.get("labels")),
        "startRestricted": False,
        "scheduling": rules,
        "networkInterfaces": nics,
        "resourceStatus": {"scheduling": {}, "physicalHost": ""},
        "tags": {**body.get("tags", {}), "fingerprint": fingerprint(body.get("tags", {}).get("items"))},
        "metadata": metadata_value(body.get("metadata", {})),
        "shieldedInstanceIntegrityPolicy": {"updateAutoLearnPolicy": True},
    }
    for key, default in (
        ("canIpForward", False),
        ("deletionProtection", False),
        ("reservationAffinity", {"consumeReservationType": "ANY_RESERVATION"}),
    ):
        value.setdefault(key, default)
    shielded = {"enableSecureBoot": False, "enableVtpm": True, "enableIntegrityMonitoring": True}
    value["shieldedInstanceConfig"] = shielded | body.get("shieldedInstanceConfig", {})
    for account in value.get("serviceAccounts", []):
        if account.get("email", "default") == "default":
            account["email"] = f"{state.number}-compute@developer.gserviceaccount.com"
    value["fingerprint"] = fingerprint(value)
    return value


def metadata_value(body: Json) -> Json:
    """Metadata as stored, with its fingerprint."""
    items = body.get("items", [])
    return {"kind": "compute#metadata", "fingerprint": fingerprint(items)} | ({"items": items} if items else {})


def get(state: State, call: Call) -> Json:
    """The instance."""
    checks.own_project(state, call)
    return checks.find(state, path_of(call))


def list_(state: State, call: Call) -> Json:
    """Those of a zone."""
    checks.own_project(state, call)
    checks.place(state, call)
    return listed("compute#instanceList", list(state.children(f"{scope_of(call.params)}/{COLLECTION}/")), call)


def aggregated_list(state: State, call: Call) -> Json:
    """Those of every zone."""
    checks.own_project(state, call)
    return aggregated(state, call, COLLECTION, "compute#instanceAggregatedList")


def delete(state: State, call: Call) -> Json:
    """STOPPING at once, gone with its auto-delete disks when the operation ends."""
    checks.own_project(state, call)
    path = path_of(call)
    value = checks.find(state, path)
    if value.get("deletionProtection"):
        text = "Resource cannot be deleted if it's protected against deletion."
        raise invalid("resource.deletionProtection", "true", text)
    return begin(
        state,
        call,
        path,
        "delete",
        apply=lambda: lifecycle.stopping(state, path),
        then=lambda: lifecycle.remove(state, path, str(value["id"])),
        seconds=state.pace.stopping,
    )


HANDLERS = {
    "compute.instances.insert": insert,
    "compute.instances.get": get,
    "compute.instances.list": list_,
    "compute.instances.aggregatedList": aggregated_list,
    "compute.instances.delete": delete,
}
