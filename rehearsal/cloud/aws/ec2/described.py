"""An instance as DescribeInstances says it."""

from __future__ import annotations

from rehearsal.cloud.aws import wire
from rehearsal.cloud.aws.call import Json
from rehearsal.cloud.aws.state import State


def reservation(state: State, instance_id: str) -> Json:
    """The reservation of an instance that exists, through moto."""
    operation = wire.model("ec2").operation_model("DescribeInstances")
    request = wire.remade("ec2", operation, {"InstanceIds": [instance_id]}, state.region)
    return dict(wire.read(operation, state.moto.ask("ec2", request))["Reservations"][0])
