"""`s3.Bucket` and `s3.BucketPublicAccessBlock`, whose id is the bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import name_of, told_name
from rehearsal.providers.aws.s3 import GONE, LATE, PROPAGATION, found, s3
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, out, text, unsent
from rehearsal.providers.values import Values

_FIRST_REGION: Final = "us-east-1"  # the one whose name CreateBucket does not take

_BY_DEFAULT: Final[Fields] = {"kmsMasterKeyId": out(), "sseAlgorithm": out()}
_ENCRYPTION_RULE: Final[Fields] = {
    "applyServerSideEncryptionByDefault": out(block(_BY_DEFAULT)),
    "bucketKeyEnabled": out(flag()),
}

BUCKET: Final[Fields] = {
    "accelerationStatus": unsent(text(computed=True)),
    "acl": unsent(text(None, computed=True)),
    "arn": out(),
    "bucket": text(autoname=True, lower=True, computed=True, replace=True),
    "bucketDomainName": out(),
    "bucketNamespace": unsent(text(computed=True, replace=True)),
    "bucketPrefix": text(computed=True, replace=True),
    "bucketRegion": out(),
    "bucketRegionalDomainName": out(),
    "corsRules": unsent(blocks({}, zero=None, computed=True)),
    "forceDestroy": flag(default=False),
    "grants": unsent(blocks({}, zero=None, computed=True)),
    "hostedZoneId": out(),
    "lifecycleRules": unsent(blocks({}, zero=None, computed=True)),
    "logging": unsent(Prop(computed=True)),
    "objectLockConfiguration": unsent(Prop(computed=True)),
    "objectLockEnabled": unsent(flag(computed=True, replace=True)),
    "policy": unsent(text(computed=True)),
    **REGION,
    "replicationConfiguration": unsent(Prop(computed=True)),
    "requestPayer": unsent(text(computed=True)),
    "serverSideEncryptionConfiguration": unsent(block({"rule": out(block(_ENCRYPTION_RULE))}, computed=True)),
    **TAGS,
    "versioning": unsent(block({"enabled": out(flag()), "mfaDelete": out(flag())}, computed=True)),
    "website": unsent(Prop(computed=True)),
    "websiteDomain": out(),
    "websiteEndpoint": out(),
}

_BLOCKS: Final = {
    "blockPublicAcls": "BlockPublicAcls",
    "blockPublicPolicy": "BlockPublicPolicy",
    "ignorePublicAcls": "IgnorePublicAcls",
    "restrictPublicBuckets": "RestrictPublicBuckets",
}

PUBLIC_ACCESS: Final[Fields] = {
    **{key: flag(default=False) for key in _BLOCKS},
    "bucket": text(required=True, replace=True),
    **REGION,
    "skipDestroy": unsent(flag(None)),
}


# Bucket


def _create_bucket(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name, region = s3(call, planned), name_of(planned, "bucket"), region_of(call, planned)
    place = {} if region == _FIRST_REGION else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        retry(call.api, PROPAGATION, lambda: send("CreateBucket", Bucket=name, **place), ("OperationAborted", ""))
    except AwsError as error:
        raise ProviderError(f"creating S3 Bucket ({name}): {error}") from error
    try:
        if planned.get("tagsAll"):
            tags = {"TagSet": tag_list(planned["tagsAll"])}
            retry(call.api, PROPAGATION, lambda: send("PutBucketTagging", Bucket=name, Tagging=tags), *LATE)
    except AwsError as error:
        raise Incomplete(name, {}, f"setting S3 Bucket ({name}) tags: {error}") from error
    told = _read_bucket(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"waiting for S3 Bucket ({name}) create: couldn't find resource")
    return name, told


def _read_bucket(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send, region = s3(call, before), region_of(call, before)
    if found(send, "HeadBucket", Bucket=identifier) is None:
        return None
    tags = found(send, "GetBucketTagging", Bucket=identifier)
    return {
        "arn": f"arn:aws:s3:::{identifier}",
        **told_name(identifier, before, "bucket"),
        "bucketDomainName": f"{identifier}.s3.amazonaws.com",
        "bucketRegion": region,
        "bucketRegionalDomainName": f"{identifier}.s3.{region}.amazonaws.com",
        "objectLockEnabled": False,
        "region": region,
        "requestPayer": "BucketOwner",
        **_encryption(send, identifier),
        **told_tags(call.api, (tags or {}).get("TagSet"), before),
        "versioning": _versioning(send, identifier),
    }


def _encryption(send: Send, identifier: str) -> Values:
    try:
        answer = send("GetBucketEncryption", Bucket=identifier)
    except AwsError as error:
        if error.says("ServerSideEncryptionConfigurationNotFoundError"):
            return {"serverSideEncryptionConfiguration": None}
        raise
    rule = answer["ServerSideEncryptionConfiguration"]["Rules"][0]
    default = rule.get("ApplyServerSideEncryptionByDefault") or {}
    told = {
        "applyServerSideEncryptionByDefault": {
            "kmsMasterKeyId": default.get("KMSMasterKeyID", ""),
            "sseAlgorithm": default.get("SSEAlgorithm", ""),
        },
        "bucketKeyEnabled": bool(rule.get("BucketKeyEnabled")),
    }
    return {"serverSideEncryptionConfiguration": {"rule": told}}


def _versioning(send: Send, identifier: str) -> Values:
    answer = send("GetBucketVersioning", Bucket=identifier)
    return {"enabled": answer.get("Status") == "Enabled", "mfaDelete": answer.get("MFADelete") == "Enabled"}


def _update_bucket(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = s3(call, change.state)
    if change.touches("tagsAll"):
        tags = tag_list(change.planned.get("tagsAll"))
        if tags:
            send("PutBucketTagging", Bucket=identifier, Tagging={"TagSet": tags})
        else:
            send("DeleteBucketTagging", Bucket=identifier)
    return _read_bucket(call, identifier, change.planned) or {}


def _delete_bucket(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    """A bucket that is not empty is an error, unless the program said `forceDestroy`: then all of it goes first."""
    send = s3(call, state)
    try:
        _remove_bucket(send, identifier)
    except AwsError as error:
        if error.code in GONE:
            return
        if not (error.says("BucketNotEmpty") and state.get("forceDestroy")):
            raise ProviderError(f"deleting S3 Bucket ({identifier}): {error}") from error
        _empty(send, identifier)
        _delete_bucket(call, identifier, {**state, "forceDestroy": False})


def _remove_bucket(send: Send, identifier: str) -> None:
    send("DeleteBucket", Bucket=identifier)


def _empty(send: Send, identifier: str) -> None:
    """Every object, every version of it, every mark of a deletion."""
    where: Values = {}
    while True:
        page = send("ListObjectVersions", Bucket=identifier, **where)
        for thing in [*(page.get("Versions") or []), *(page.get("DeleteMarkers") or [])]:
            send("DeleteObject", Bucket=identifier, Key=thing["Key"], VersionId=thing["VersionId"])
        if not page.get("IsTruncated"):
            return
        where = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page.get("NextVersionIdMarker", "")}
        where = {key: value for key, value in where.items() if value}


# BucketPublicAccessBlock: its id is the bucket


def _put_block(call: Call[Aws], bucket: str, planned: Mapping[str, Any]) -> None:
    send = s3(call, planned)
    wanted = {name: bool(planned.get(key)) for key, name in _BLOCKS.items()}
    try:
        retry(
            call.api,
            PROPAGATION,
            lambda: send("PutPublicAccessBlock", Bucket=bucket, PublicAccessBlockConfiguration=wanted),
            *LATE,
        )
    except AwsError as error:
        raise ProviderError(f"creating S3 Bucket ({bucket}) Public Access Block: {error}") from error


def _create_block(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    bucket = str(planned["bucket"])
    _put_block(call, bucket, planned)
    told = _read_block(call, bucket, planned)
    if told is None:
        raise Incomplete(bucket, {}, f"waiting for S3 Public Access Block ({bucket}) create: couldn't find resource")
    return bucket, told


def _read_block(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    answer = found(s3(call, before), "GetPublicAccessBlock", Bucket=identifier)
    if answer is None:
        return None
    there = answer["PublicAccessBlockConfiguration"]
    told: Values = {key: bool(there.get(name)) for key, name in _BLOCKS.items()}
    return told | {"bucket": identifier, "region": region_of(call, before)}


def _update_block(call: Call[Aws], identifier: str, change: Change) -> Values:
    _put_block(call, identifier, change.planned)
    return _read_block(call, identifier, change.planned) or {}


def _delete_block(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        found(s3(call, state), "DeletePublicAccessBlock", Bucket=identifier)
    except AwsError as error:
        raise ProviderError(f"deleting S3 Bucket Public Access Block ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:s3/bucket:Bucket",
        fields=BUCKET,
        create=_create_bucket,
        read=_read_bucket,
        update=_update_bucket,
        updates=TAG_MAPS | {"forceDestroy"},
        delete=_delete_bucket,
        timeouts={"create": 1200.0, "read": 1200.0, "update": 1200.0, "delete": 3600.0},
        import_state=at_import(forceDestroy=False),
        check=add_default_tags,
        customize=plan_tags,
    ),
    Resource(
        token="aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        fields=PUBLIC_ACCESS,
        create=_create_block,
        read=_read_block,
        update=_update_block,
        updates=frozenset(_BLOCKS),
        delete=_delete_block,
    ),
]
