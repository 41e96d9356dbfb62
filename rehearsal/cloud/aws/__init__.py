"""AWS's HTTP APIs on loopback: moto where it is right, our own where it is not, every request checked by AWS's own models."""

from rehearsal.botocore_once import share

share()  # before moto, which asks a session of its own for EC2's regions while it is loaded

from rehearsal.cloud.aws.cloud import LocalAwsCloud  # noqa: E402
from rehearsal.cloud.aws.identity import OPERATOR  # noqa: E402
from rehearsal.cloud.aws.pace import Pace  # noqa: E402

__all__ = ["OPERATOR", "LocalAwsCloud", "Pace"]
