"""An instance as DescribeInstances says it."""

from __future__ import annotations

from typing import Any

from rehearsal.cloud.aws import wire
from rehearsal.cloud.aws.call import Json


def reservation(moto_reservation: Any) -> Json:
    """Moto's reservation, through moto's own serializer and botocore's reader."""
    operation = wire.model("ec2").operation_model("DescribeInstances")
    answer = wire.answered(operation, {"Reservations": [moto_reservation]}, "ec2", "internal")
    return dict(wire.read(operation, answer)["Reservations"][0])
