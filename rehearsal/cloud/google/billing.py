"""Which resources bill, under which kind and with which attributes. The price itself comes from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehearsal.cloud.google.call import Json

if TYPE_CHECKING:
    from rehearsal.cloud.google.state import State


def place_of(value: Json) -> str:
    """Zone, region or `global` of a stored resource, from its own link."""
    parts = str(value["selfLink"]).split("/")
    return (
        parts[parts.index("zones") + 1]
        if "zones" in parts
        else parts[parts.index("regions") + 1]
        if "regions" in parts
        else "global"
    )


def router(state: State, new: Json, old: Json | None) -> None:
    """A router is free; each NAT on it bills."""
    value = new or old or {}
    where, name = place_of(value), value["name"]
    before = {nat["name"] for nat in (old or {}).get("nats", [])}
    after = {nat["name"] for nat in new.get("nats", [])}
    for nat in sorted(before - after):
        state.ledger.deleted("nat", f"{name}/{nat}", where)
    for nat in sorted(after - before):
        state.ledger.created("nat", f"{name}/{nat}", where)


def address(state: State, new: Json, old: Json | None) -> None:
    """A reserved external address bills, used or not."""
    value = new or old or {}
    if value.get("addressType") != "EXTERNAL":
        return
    if new:
        state.ledger.created("address", value["name"], place_of(value), {"reserved": True}, value.get("labels"))
    else:
        state.ledger.deleted("address", value["name"], place_of(value))
        state.fleet.addresses.give_back(value["address"])


def disk_created(state: State, disk: Json) -> None:
    """A disk bills from its creation, attached or not."""
    attributes = {"disk_type": str(disk["type"]).rsplit("/", 1)[-1], "size_gb": int(disk["sizeGb"])}
    state.ledger.created("disk", disk["name"], place_of(disk), attributes, disk.get("labels"))


def disk_deleted(state: State, disk: Json) -> None:
    """No more."""
    state.ledger.deleted("disk", disk["name"], place_of(disk))


def machine_on(state: State, instance: Json) -> None:
    """Machine and ephemeral external addresses bill while it is provisioned; a stopped one keeps only its disks."""
    where, labels = place_of(instance), instance.get("labels")
    attributes = {
        "machine_type": str(instance["machineType"]).rsplit("/", 1)[-1],
        "provisioning_model": instance["scheduling"].get("provisioningModel", "STANDARD"),
    }
    state.ledger.created("instance", instance["name"], where, attributes, labels)
    for nic in instance["networkInterfaces"]:
        if nic.get("accessConfigs"):
            external_on(state, instance, nic)


def machine_off(state: State, instance: Json) -> None:
    """No more; also right when it was off already."""
    state.ledger.deleted("instance", instance["name"], place_of(instance))
    for nic in instance["networkInterfaces"]:
        external_off(state, instance, nic)


def external_on(state: State, instance: Json, nic: Json) -> None:
    """An ephemeral external address."""
    name = f"{instance['name']}/{nic['name']}"
    state.ledger.created("address", name, place_of(instance), {"reserved": False}, instance.get("labels"))


def external_off(state: State, instance: Json, nic: Json) -> None:
    """No more."""
    state.ledger.deleted("address", f"{instance['name']}/{nic['name']}", place_of(instance))


def relabelled(state: State, instance: Json) -> None:
    """The instance's labels changed."""
    where, labels = place_of(instance), instance.get("labels") or {}
    state.ledger.relabelled("instance", instance["name"], where, labels)
    for nic in instance["networkInterfaces"]:
        state.ledger.relabelled("address", f"{instance['name']}/{nic['name']}", where, labels)
