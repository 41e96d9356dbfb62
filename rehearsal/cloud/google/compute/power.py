"""An instance's power: stop, start, reset."""

from __future__ import annotations

from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.compute import checks, lifecycle
from rehearsal.cloud.google.compute.instances import path_of
from rehearsal.cloud.google.errors import error
from rehearsal.cloud.google.operations import begin
from rehearsal.cloud.google.state import State


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


HANDLERS = {
    "compute.instances.stop": stop,
    "compute.instances.start": start,
    "compute.instances.reset": reset,
}
