"""From pending to terminated, on the cloud's clock. Events take the lock themselves; machines are never waited for under it."""

from __future__ import annotations

import base64
from typing import Any

from rehearsal.cloud.aws import billing
from rehearsal.cloud.aws.call import Call, Result
from rehearsal.cloud.aws.ec2 import bodies, spot
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.ssm import commands
from rehearsal.cloud.aws.state import State

USER = ("Client.UserInitiatedShutdown", "User initiated shutdown")
GUEST = ("Client.InstanceInitiatedShutdown", "Instance initiated shutdown")
SPOT = ("Server.SpotInstanceTermination", "Spot instance termination")


def begin(state: State, instance: Any) -> None:
    """It was run: pending, and some time later running. Called under the lock."""
    bodies.put(instance, "pending")
    instance.launch_time = state.naive()
    state.clock.after(state.pace.pending, lambda: _running(state, instance.id))


def _running(state: State, instance_id: str) -> None:
    with state.lock:
        instance = bodies.find(state, instance_id)
        if instance is None or instance.state != "pending":
            return
        bodies.put(instance, "running")
        billing.settle(state)
    state.fleet.power_on(instance_id)


def end(state: State, instance: Any, why: tuple[str, str], status: str) -> None:
    """It goes: shutting down, and some time later terminated. Called under the lock; going already is no error."""
    if instance.state in bodies.GOING:
        return
    bodies.put(instance, "shutting-down")
    bodies.because(state, instance, *why)
    spot.status(state, instance.id, status, closed=True)
    state.clock.after(state.pace.stopping, lambda: _terminated(state, instance.id, why))


def _terminated(state: State, instance_id: str, why: tuple[str, str]) -> None:
    state.agents.gone(instance_id)
    state.fleet.delete(instance_id)
    with state.lock:
        commands.machine_gone(state, instance_id)
        instance = bodies.find(state, instance_id)
        if instance is None or instance.state == "terminated":
            return
        with state.moto.at_its_time():
            instance.terminate()
        _disassociate(state, instance_id)
        bodies.put(instance, "terminated")
        bodies.because(state, instance, *why)
        state.credentials.revoke(instance_id)
        billing.settle(state)
        state.clock.after(state.pace.forgotten, lambda: _forgotten(state, instance_id))


def _disassociate(state: State, instance_id: str) -> None:
    """Its profile is free; moto looks for it under the wrong key."""
    table = state.ec2.iam_instance_profile_associations
    for key in [k for k, a in table.items() if a.instance.id == instance_id]:
        del table[key]


def _forgotten(state: State, instance_id: str) -> None:
    with state.lock:
        bodies.forget(state, instance_id)


def marked(state: State, instance_id: str) -> None:
    """The notice was given. Called under the lock."""
    spot.status(state, instance_id, "marked-for-termination")


def take_away(state: State, instance_id: str) -> None:
    """The cloud reclaims it now."""
    with state.lock:
        instance = bodies.find(state, instance_id)
        if instance is not None:
            end(state, instance, SPOT, "instance-terminated-no-capacity")
            billing.settle(state)


def powered_off(state: State, instance_id: str) -> None:
    """A shutdown inside: terminated where that is the behaviour, or where a one-time spot instance cannot be stopped."""
    with state.lock:
        instance = bodies.find(state, instance_id)
        if instance is None or instance.state in (*bodies.GOING, "stopping", "stopped"):
            return
        if instance.instance_initiated_shutdown_behavior == "terminate" or instance.lifecycle == "spot":
            end(state, instance, GUEST, "instance-terminated-by-user")
        else:
            _stop(state, instance, GUEST)
        billing.settle(state)


def _stop(state: State, instance: Any, why: tuple[str, str]) -> None:
    bodies.put(instance, "stopping")
    bodies.because(state, instance, *why)
    state.clock.after(state.pace.stopping, lambda: _stopped(state, instance.id, why))


def _stopped(state: State, instance_id: str, why: tuple[str, str]) -> None:
    state.agents.gone(instance_id)
    state.fleet.power_off(instance_id)
    with state.lock:
        instance = bodies.find(state, instance_id)
        if instance is not None and instance.state == "stopping":
            with state.moto.at_its_time():
                instance.stop()
            bodies.because(state, instance, *why)
            billing.settle(state)


# The operations.


def _known(state: State, ids: list[str]) -> list[Any]:
    found = [(i, bodies.find(state, i)) for i in ids]
    if missing := [i for i, instance in found if instance is None]:
        plural = "s" if len(missing) > 1 else ""
        raise AwsError(
            "InvalidInstanceID.NotFound", f"The instance ID{plural} '{', '.join(missing)}' do{'' if plural else 'es'} not exist"
        )
    return [instance for _, instance in found]


def _change(instance: Any, before: tuple[int, str]) -> dict[str, object]:
    return {
        "InstanceId": instance.id,
        "CurrentState": {"Code": instance.state_code, "Name": instance.state},
        "PreviousState": {"Code": before[0], "Name": before[1]},
    }


def terminate(state: State, call: Call) -> Result:
    """TerminateInstances: terminated already is no error."""
    instances = _known(state, call.params["InstanceIds"])
    for instance in instances:
        if instance.disable_api_termination:
            why = "may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
            raise AwsError("OperationNotPermitted", f"The instance '{instance.id}' {why}")
    changes = []
    for instance in instances:
        before = (instance.state_code, instance.state)
        end(state, instance, USER, "instance-terminated-by-user")
        changes.append(_change(instance, before))
    return {"TerminatingInstances": changes}


def stop(state: State, call: Call) -> Result:
    """StopInstances: never a one-time spot instance."""
    changes = []
    for instance in _known(state, call.params["InstanceIds"]):
        if instance.lifecycle == "spot":
            raise AwsError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance request. "
                "You can only stop Spot Instances associated with persistent Spot Instance requests.",
            )
        _must(instance, "running", "stopping", "stopped")
        before = (instance.state_code, instance.state)
        if instance.state == "running":
            _stop(state, instance, USER)
        changes.append(_change(instance, before))
    return {"StoppingInstances": changes}


def start(state: State, call: Call) -> Result:
    """StartInstances: the same disk boots again."""
    changes = []
    for instance in _known(state, call.params["InstanceIds"]):
        _must(instance, "stopped", "pending", "running")
        before = (instance.state_code, instance.state)
        if instance.state == "stopped":
            with state.moto.at_its_time():
                instance.start()
            begin(state, instance)
        changes.append(_change(instance, before))
    return {"StartingInstances": changes}


def reboot(state: State, call: Call) -> Result:
    """RebootInstances: orderly, on the clock's next turn."""
    for instance in _known(state, call.params["InstanceIds"]):
        _must(instance, "running")
        state.clock.after(0.0, lambda i=instance.id: state.fleet.reboot(i))  # type: ignore[misc]
    return None


def modify(state: State, call: Call) -> Result:
    """ModifyInstanceAttribute: user data and type only while it is stopped, which moto forgets."""
    instance = _known(state, [call.params["InstanceId"]])[0]
    stopped_only = call.params.get("UserData") or call.params.get("InstanceType")
    if (stopped_only or call.params.get("Attribute") in ("userData", "instanceType")) and instance.state != "stopped":
        raise AwsError("IncorrectInstanceState", f"The instance '{instance.id}' is not in the 'stopped' state.")
    if behaviour := (call.params.get("InstanceInitiatedShutdownBehavior") or {}).get("Value"):
        return _shuts_down_by(instance, behaviour)
    if data := (call.params.get("UserData") or {}).get("Value"):
        return call.moto({**call.params, "UserData": {"Value": base64.b64encode(data)}})  # moto decodes it twice
    return call.moto(None)


def _shuts_down_by(instance: Any, behaviour: str) -> Result:
    """Moto takes a request for this as one for no security groups."""
    if behaviour not in ("stop", "terminate"):
        raise AwsError("InvalidParameterValue", f"Value ({behaviour}) for parameter instanceInitiatedShutdownBehavior is invalid.")
    instance.instance_initiated_shutdown_behavior = behaviour
    return {}


def console(state: State, call: Call) -> Result:
    """GetConsoleOutput: the last 64 KiB of the console."""
    instance = _known(state, [call.params["InstanceId"]])[0]
    text = state.fleet.console(instance.id).encode()[-65536:]
    return {"InstanceId": instance.id, "Output": base64.b64encode(text).decode(), "Timestamp": state.now()}


def _must(instance: Any, *states: str) -> None:
    if instance.state not in states:
        raise AwsError(
            "IncorrectInstanceState",
            f"The instance '{instance.id}' is not in a state from which it can be changed: {instance.state}.",
        )
