"""S3, where moto is not right: a new bucket is private and encrypted without being asked."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from rehearsal.cloud.aws.call import Call, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.state import State

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PRIVATE = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True}
ENCRYPTED = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}]}


def create(state: State, call: Call) -> Result:
    """CreateBucket: made at the cloud's time, with public access blocked and ACLs off."""
    name, s3 = call.params["Bucket"], state.moto.backend("s3")
    if not NAME.fullmatch(name) or ".." in name:
        raise AwsError("InvalidBucketName", "The specified bucket is not valid.")
    answer = call.moto(None)
    bucket = s3.buckets[name]
    bucket.creation_date = state.now()
    if bucket.public_access_block is None:
        s3.put_public_access_block(name, PRIVATE)
    if bucket.ownership_rule is None:
        s3.put_bucket_ownership_controls(name, "BucketOwnerEnforced")
    return answer


def encryption(state: State, call: Call) -> Result:  # noqa: ARG001
    """GetBucketEncryption: by S3's own keys where nothing else was set."""
    try:
        return call.moto(None)
    except AwsError as missing:
        if missing.code != "ServerSideEncryptionConfigurationNotFoundError":
            raise
    return {"ServerSideEncryptionConfiguration": ENCRYPTED}


def content(state: State, bucket: str, key: str) -> bytes | None:
    """An object's bytes; None where there is none. Called under the lock."""
    found: Any = state.moto.backend("s3").buckets.get(bucket)
    return bytes(found.keys[key].value) if found is not None and key in found.keys else None


def member(archive: bytes, name: str) -> bytes:
    """A file of a zip. Raises KeyError without it."""
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        return packed.read(name)
