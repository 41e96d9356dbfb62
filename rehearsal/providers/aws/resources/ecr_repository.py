"""`ecr.Repository`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import name_of
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_changes, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, out, text, unsent
from rehearsal.providers.values import Values

GONE: Final = "RepositoryNotFoundException"

FIELDS: Final[Fields] = {
    "arn": out(),
    "encryptionConfigurations": blocks(
        {"encryptionType": text(default="AES256", replace=True), "kmsKey": unsent(text(computed=True, replace=True))},
        computed=True,
        replace=True,
    ),
    "forceDelete": flag(),
    "imageScanningConfiguration": block({"scanOnPush": flag(required=True)}, computed=True),
    "imageTagMutability": text(default="MUTABLE"),
    "imageTagMutabilityExclusionFilters": unsent(Prop()),
    "name": text(autoname=True, lower=True, replace=True, computed=True),
    **REGION,
    "registryId": out(),
    "repositoryUrl": out(),
    **TAGS,
}


def _ecr(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    return call.api.service("ecr", values.get("region"))


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = _ecr(call, planned), name_of(planned)
    asked: Values = {"imageTagMutability": planned.get("imageTagMutability"), "tags": tag_list(planned.get("tagsAll"))}
    if planned.get("imageScanningConfiguration"):
        asked["imageScanningConfiguration"] = {"scanOnPush": bool(planned["imageScanningConfiguration"].get("scanOnPush"))}
    if planned.get("encryptionConfigurations"):
        asked["encryptionConfiguration"] = {"encryptionType": planned["encryptionConfigurations"][0]["encryptionType"]}
    try:
        send("CreateRepository", repositoryName=name, **{key: value for key, value in asked.items() if value})
    except AwsError as error:
        raise ProviderError(f"creating ECR Repository ({name}): {error}") from error
    told = _read(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"reading ECR Repository ({name}): couldn't find resource")
    return name, told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = _ecr(call, before)
    try:
        (there,) = send("DescribeRepositories", repositoryNames=[identifier])["repositories"]
    except AwsError as error:
        if error.says(GONE):
            return None
        raise
    tags = send("ListTagsForResource", resourceArn=there["repositoryArn"])["tags"]
    return {
        "arn": there["repositoryArn"],
        "encryptionConfigurations": [{"encryptionType": there["encryptionConfiguration"]["encryptionType"], "kmsKey": ""}],
        "imageScanningConfiguration": {"scanOnPush": bool(there["imageScanningConfiguration"].get("scanOnPush"))},
        "imageTagMutability": there["imageTagMutability"],
        "name": there["repositoryName"],
        "region": region_of(call, before),
        "registryId": there["registryId"],
        "repositoryUrl": there["repositoryUri"],
        **told_tags(call.api, tags, before),
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send, planned = _ecr(call, change.state), change.planned
    if change.touches("imageTagMutability"):
        send("PutImageTagMutability", repositoryName=identifier, imageTagMutability=planned["imageTagMutability"])
    if change.touches("imageScanningConfiguration"):
        scan = {"scanOnPush": bool((planned.get("imageScanningConfiguration") or {}).get("scanOnPush"))}
        send("PutImageScanningConfiguration", repositoryName=identifier, imageScanningConfiguration=scan)
    if change.touches("tagsAll"):
        away, wanted = tag_changes(change)
        if away:
            send("UntagResource", resourceArn=change.state["arn"], tagKeys=away)
        if wanted:
            send("TagResource", resourceArn=change.state["arn"], tags=tag_list(wanted))
    return _read(call, identifier, planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        _ecr(call, state)("DeleteRepository", repositoryName=identifier, force=bool(state.get("forceDelete")))
    except AwsError as error:
        if error.says(GONE):
            return
        if error.says("RepositoryNotEmptyException"):
            raise ProviderError(f"ECR Repository ({identifier}) not empty, consider using force_delete: {error}") from error
        raise ProviderError(f"deleting ECR Repository ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:ecr/repository:Repository",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS | {"forceDelete", "imageScanningConfiguration", "imageTagMutability"},
        delete=_delete,
        check=add_default_tags,
        customize=plan_tags,
        import_state=at_import(forceDelete=False),
    )
]
