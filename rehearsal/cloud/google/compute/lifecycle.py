"""An instance's states on the clock: PROVISIONING, STAGING, RUNNING, STOPPING, TERMINATED, gone.

The functions that end in a machine (`_run`, `remove`, `stop`) take the lock themselves and let go of it before they
touch the machine.
"""

from __future__ import annotations

from rehearsal.cloud.google import billing
from rehearsal.cloud.google.call import Json
from rehearsal.cloud.google.compute import disks, scheduling
from rehearsal.cloud.google.operations import record_done
from rehearsal.cloud.google.state import State


def provision(state: State, path: str) -> None:
    """Start towards RUNNING. Called under the lock, with the instance stored as PROVISIONING."""
    instance = state.compute[path]
    identity = instance["id"]
    billing.machine_on(state, instance)
    state.clock.after(state.pace.provisioning, lambda: _set(state, path, identity, "STAGING"))
    state.clock.after(state.pace.provisioning + state.pace.staging, lambda: _run(state, path, identity))


def _set(state: State, path: str, identity: str, status: str) -> None:
    with state.lock:
        if (instance := _same(state, path, identity)) is not None:
            instance["status"] = status


def _same(state: State, path: str, identity: str) -> Json | None:
    """The instance, unless it is gone, replaced by another of its name, or on its way out."""
    instance = state.compute.get(path)
    if instance is None or instance["id"] != identity or instance["status"] in ("STOPPING", "TERMINATED"):
        return None
    return instance


def _run(state: State, path: str, identity: str) -> None:
    with state.lock:
        instance = _same(state, path, identity)
        if instance is None:
            return
        instance.update(status="RUNNING", lastStartTimestamp=state.stamp())
        seconds = scheduling.run_seconds(instance["scheduling"])
        if seconds is not None:
            end = state.clock.now() + seconds
            instance["resourceStatus"]["scheduling"]["terminationTimestamp"] = state.stamp(end)
            start = instance["lastStartTimestamp"]
            state.clock.at(end, lambda: _window_closed(state, path, identity, start))
    state.fleet.power_on(path)


def _window_closed(state: State, path: str, identity: str, start: str) -> None:
    """max_run_duration is over: the termination action, unless the instance was started again since."""
    with state.lock:
        instance = _same(state, path, identity)
        if instance is None or instance.get("lastStartTimestamp") != start:
            return
        action = instance["scheduling"].get("instanceTerminationAction")
    if action == "DELETE":
        take_away(state, path, "compute.instances.delete")
    else:
        stop(state, path)


def take_away(state: State, path: str, kind: str) -> None:
    """The cloud itself deletes the instance, now; `kind` is the operation type under which that is recorded."""
    with state.lock:
        instance = state.compute.get(path)
        if instance is None:
            return
        identity = instance["id"]
        stopping(state, path)
    remove(state, path, identity)
    with state.lock:
        record_done(state, path.rsplit("/instances/", 1)[0], path, identity, kind)


def stopping(state: State, path: str) -> None:
    """On its way out; out of the queue, if it was there. Called under the lock."""
    if (waiting := state.queue.pop(path, None)) is not None:
        waiting.give_up()
    state.compute[path]["status"] = "STOPPING"


def remove(state: State, path: str, identity: str) -> None:
    """The machine, the instance and its auto-delete disks are gone and off the bill."""
    state.fleet.delete(path)
    with state.lock:
        instance = state.compute.get(path)
        if instance is None or instance["id"] != identity:
            return
        state.compute.pop(path)
        disks.released(state, instance)
        billing.machine_off(state, instance)
        for nic in instance["networkInterfaces"]:
            for access in nic.get("accessConfigs", []):
                state.fleet.addresses.give_back(access.get("natIP", ""))


def stop(state: State, path: str, *, by_guest: bool = False) -> None:
    """TERMINATED: the machine is off, its disks still bill."""
    with state.lock:
        if path not in state.compute:
            return
        stopping(state, path)
    if not by_guest:
        state.fleet.power_off(path)
    with state.lock:
        instance = state.compute.get(path)
        if instance is not None:
            instance.update(status="TERMINATED", lastStopTimestamp=state.stamp())
            billing.machine_off(state, instance)
