"""S3, where moto is not right."""

from __future__ import annotations

from rehearsal.cloud.aws.call import Call, Result
from rehearsal.cloud.aws.state import State


def create(state: State, call: Call) -> Result:
    """CreateBucket: made at the cloud's time."""
    answer = call.moto(None)
    state.moto.backend("s3").buckets[call.params["Bucket"]].creation_date = state.now()
    return answer
