"""moto's instances, told what state they are in."""

from __future__ import annotations

from typing import Any

from moto.ec2.models.instances import StateReason

from rehearsal.cloud.aws.state import State

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
GOING = ("shutting-down", "terminated")


def find(state: State, instance_id: str) -> Any | None:
    """Moto's instance; None when there is none."""
    return state.ec2.get_instance_by_id(instance_id)


def every(state: State) -> list[Any]:
    """All instances that are described."""
    return [i for reservation in state.ec2.reservations.values() for i in reservation.instances]


def put(instance: Any, name: str) -> None:
    """Set its state."""
    instance._state.name, instance._state.code = name, CODES[name]


def because(state: State, instance: Any, code: str, message: str) -> None:
    """Why it changed, as DescribeInstances says it."""
    when = state.now().strftime("%Y-%m-%d %H:%M:%S GMT")
    instance.state_reason = StateReason(f"{code}: {message}", code)
    instance._reason = f"{'User' if code.startswith('Client') else 'Server'} initiated ({when})"


def tags(thing: Any) -> dict[str, str]:
    """A resource's tags."""
    return {t["key"]: t["value"] for t in thing.get_tags()}


def forget(state: State, instance_id: str) -> None:
    """It is described no more."""
    for reservation_id, reservation in list(state.ec2.reservations.items()):
        reservation.instances = [i for i in reservation.instances if i.id != instance_id]
        if not reservation.instances:
            del state.ec2.reservations[reservation_id]
