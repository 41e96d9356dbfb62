"""AWS's HTTP APIs on loopback: moto where it is right, our own where it is not, every request checked by AWS's own models."""

from rehearsal.cloud.aws.cloud import LocalAwsCloud
from rehearsal.cloud.aws.identity import OPERATOR
from rehearsal.cloud.aws.pace import Pace

__all__ = ["OPERATOR", "LocalAwsCloud", "Pace"]
