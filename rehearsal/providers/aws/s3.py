"""What the S3 resources share: S3 in a region, and what counts as not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.resource import Call
from rehearsal.providers.values import Values

PROPAGATION: Final = 120.0  # seconds until a new bucket is known everywhere
GONE: Final = frozenset({"404", "NoSuchBucket", "NoSuchKey", "NotFound", "NoSuchPublicAccessBlockConfiguration", "NoSuchTagSet"})
LATE: Final = (("NoSuchBucket", ""), ("OperationAborted", ""))


def s3(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    """S3 in the resource's own region."""
    return call.api.service("s3", values.get("region"))


def found(send: Send, operation: str, **parameters: Any) -> Values | None:
    """The answer, or None where S3 has no such thing."""
    try:
        return send(operation, **parameters)
    except AwsError as error:
        if error.code in GONE:
            return None
        raise
