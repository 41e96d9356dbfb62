"""`s3.BucketObjectv2`. Its id is BUCKET/KEY; what is in it is uploaded and never read back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from rehearsal.providers.aws.api import Aws, AwsError, retry
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.s3 import LATE, PROPAGATION, found, s3
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.schema import Fields, Prop, flag, mapping, out, text, unsent
from rehearsal.providers.values import UNKNOWN, Values

_HEADERS: Final = {
    "cacheControl": "CacheControl",
    "contentDisposition": "ContentDisposition",
    "contentEncoding": "ContentEncoding",
    "contentLanguage": "ContentLanguage",
}

OBJECT: Final[Fields] = {
    "acl": unsent(text(None, computed=True)),
    "arn": out(),
    "bucket": text(required=True, replace=True),
    "bucketKeyEnabled": unsent(flag(computed=True)),
    **{key: text() for key in _HEADERS},
    "checksumAlgorithm": unsent(text(None)),
    "checksumCrc32": out(),
    "checksumCrc32c": out(),
    "checksumCrc64nvme": out(),
    "checksumSha1": out(),
    "checksumSha256": out(),
    "content": text(None),
    "contentBase64": text(None),
    "contentType": text(computed=True),
    "etag": text(computed=True),
    "forceDestroy": flag(default=False),
    "key": text(required=True, replace=True),
    "kmsKeyId": unsent(text(computed=True)),
    "metadata": mapping(),
    "objectLockLegalHoldStatus": unsent(text()),
    "objectLockMode": unsent(text()),
    "objectLockRetainUntilDate": unsent(text()),
    "overrideProvider": unsent(Prop()),
    **REGION,
    "serverSideEncryption": text(computed=True),
    "source": unsent(Prop()),
    "sourceHash": text(None),
    "storageClass": text(computed=True),
    **TAGS,
    "versionId": out(),
    "websiteRedirect": unsent(text()),
}

# A change of any of these uploads the object again.
_CONTENT: Final = (
    *_HEADERS,
    "content",
    "contentBase64",
    "contentType",
    "etag",
    "metadata",
    "serverSideEncryption",
    "sourceHash",
    "storageClass",
)


def _upload(call: Call[Aws], planned: Mapping[str, Any]) -> None:
    send, bucket, key = s3(call, planned), planned["bucket"], planned["key"]
    body = str(planned.get("content") or "").encode() or base64.b64decode(planned.get("contentBase64") or "")
    asked: Values = {
        **{name: planned.get(prop) for prop, name in _HEADERS.items()},
        "ContentType": planned.get("contentType"),
        "Metadata": planned.get("metadata"),
        "ServerSideEncryption": planned.get("serverSideEncryption"),
        "StorageClass": planned.get("storageClass"),
        "Tagging": _tagging(planned.get("tagsAll")),
    }
    asked = {name: value for name, value in asked.items() if value}
    try:
        retry(call.api, PROPAGATION, lambda: send("PutObject", Bucket=bucket, Key=key, Body=body, **asked), *LATE)
    except AwsError as error:
        raise ProviderError(f"uploading S3 Object ({key}) to Bucket ({bucket}): {error}") from error


def _tagging(tags: Mapping[str, str] | None) -> str:

    return urlencode(sorted((tags or {}).items()))


def _create_object(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    _upload(call, planned)
    identifier = f"{planned['bucket']}/{planned['key']}"
    told = _read_object(call, identifier, planned)
    if told is None:
        raise Incomplete(identifier, {}, f"reading S3 Object ({identifier}): couldn't find resource")
    return identifier, told


def _read_object(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = s3(call, before)
    bucket, _, key = identifier.partition("/")
    there = found(send, "HeadObject", Bucket=bucket, Key=key)
    if there is None:
        return None
    tags = found(send, "GetObjectTagging", Bucket=bucket, Key=key) or {}
    return {
        "arn": f"arn:aws:s3:::{identifier}",
        "bucket": bucket,
        "bucketKeyEnabled": bool(there.get("BucketKeyEnabled")),
        **{prop: there.get(name, "") for prop, name in _HEADERS.items()},
        "contentType": there.get("ContentType", ""),
        "etag": str(there.get("ETag", "")).strip('"'),
        "key": key,
        "metadata": there.get("Metadata") or None,
        "region": region_of(call, before),
        "serverSideEncryption": there.get("ServerSideEncryption", ""),
        "storageClass": there.get("StorageClass", "STANDARD"),
        **told_tags(call.api, tags.get("TagSet"), before),
        "versionId": there.get("VersionId", ""),
    }


def _update_object(call: Call[Aws], identifier: str, change: Change) -> Values:
    bucket, _, key = identifier.partition("/")
    if change.touches(*_CONTENT):
        _upload(call, change.planned)
    elif change.touches("tagsAll"):
        tags = {"TagSet": tag_list(change.planned.get("tagsAll"))}
        s3(call, change.state)("PutObjectTagging", Bucket=bucket, Key=key, Tagging=tags)
    return _read_object(call, identifier, change.planned) or {}


def _delete_object(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = s3(call, state)
    bucket, _, key = identifier.partition("/")
    try:
        if not state.get("versionId"):
            found(send, "DeleteObject", Bucket=bucket, Key=key)
            return
        page = found(send, "ListObjectVersions", Bucket=bucket, Prefix=key) or {}
        for thing in [*(page.get("Versions") or []), *(page.get("DeleteMarkers") or [])]:
            if thing["Key"] == key:
                send("DeleteObject", Bucket=bucket, Key=key, VersionId=thing["VersionId"])
    except AwsError as error:
        raise ProviderError(f"deleting S3 Bucket ({bucket}) Object ({key}): {error}") from error


def _customize_object(api: Aws, state: Mapping[str, Any] | None, planned: Values) -> Values:
    """What a new content makes of the tag that tells contents apart is known only after the upload."""
    planned = plan_tags(api, state, planned)
    changed = state is not None and any(planned.get(key) != state.get(key) for key in ("content", "contentBase64", "sourceHash"))
    if changed and state is not None and planned.get("etag") == state.get("etag"):
        return planned | {"etag": UNKNOWN}
    return planned


RESOURCES: Final = [
    Resource(
        token="aws:s3/bucketObjectv2:BucketObjectv2",
        fields=OBJECT,
        create=_create_object,
        read=_read_object,
        update=_update_object,
        updates=TAG_MAPS | frozenset(_CONTENT) | {"forceDestroy"},
        delete=_delete_object,
        import_state=at_import(forceDestroy=False),
        check=add_default_tags,
        customize=_customize_object,
    ),
]
