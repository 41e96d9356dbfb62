"""`sagemaker.Model`. It never changes but for its tags. CreateModel is tried again for two minutes on any ValidationException."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, retry
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import name_of
from rehearsal.providers.aws.sagemaker import found, gone, sagemaker, tags, update_tags
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, mapping, out, text, unsent
from rehearsal.providers.values import Values

AGAIN_S: Final = 120.0

_CONTAINER: Final[Fields] = {
    "additionalModelDataSources": unsent(Prop()),
    "containerHostname": text(replace=True),
    "environment": mapping(replace=True),
    "image": text(replace=True),
    "imageConfig": unsent(Prop()),
    "inferenceSpecificationName": unsent(text()),
    "mode": text(default="SingleModel", replace=True),
    "modelDataSource": unsent(Prop()),
    "modelDataUrl": unsent(text()),
    "modelPackageName": unsent(text()),
    "multiModelConfig": unsent(Prop()),
}

FIELDS: Final[Fields] = {
    "arn": out(),
    "containers": unsent(blocks({}, zero=None)),
    "enableNetworkIsolation": flag(replace=True),
    "executionRoleArn": text(required=True, replace=True),
    "inferenceExecutionConfig": unsent(Prop(computed=True, replace=True)),
    "name": text(autoname=True, computed=True, replace=True),
    "primaryContainer": block(_CONTAINER),
    **REGION,
    **TAGS,
    "vpcConfig": unsent(Prop(replace=True)),
}


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name, given = sagemaker(call, planned), name_of(planned), planned.get("primaryContainer") or {}
    container = {
        "ContainerHostname": given.get("containerHostname"),
        "Environment": given.get("environment"),
        "Image": given.get("image"),
        "Mode": given.get("mode"),
    }
    asked: Values = {
        "ExecutionRoleArn": planned["executionRoleArn"],
        "EnableNetworkIsolation": planned.get("enableNetworkIsolation"),
        "PrimaryContainer": {key: value for key, value in container.items() if value},
        "Tags": tag_list(planned.get("tagsAll")),
    }
    asked = {key: value for key, value in asked.items() if value}
    try:
        retry(call.api, AGAIN_S, lambda: send("CreateModel", ModelName=name, **asked), ("ValidationException", ""))
    except AwsError as error:
        raise ProviderError(f"creating SageMaker AI model: {error}") from error
    told = _read(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"reading SageMaker AI Model ({name}): couldn't find resource")
    return name, told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = sagemaker(call, before)
    there = found(send, "model", "DescribeModel", ModelName=identifier)
    if there is None:
        return None
    container = there.get("PrimaryContainer") or {}
    return {
        "arn": there["ModelArn"],
        "enableNetworkIsolation": bool(there.get("EnableNetworkIsolation")),
        "executionRoleArn": there.get("ExecutionRoleArn", ""),
        "name": there["ModelName"],
        "primaryContainer": {
            "containerHostname": container.get("ContainerHostname", ""),
            "environment": container.get("Environment") or None,
            "image": container.get("Image", ""),
            "mode": container.get("Mode", "SingleModel"),
        },
        "region": region_of(call, before),
        **told_tags(call.api, tags(send, there["ModelArn"]), before),
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    update_tags(sagemaker(call, change.state), str(change.state["arn"]), change)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        sagemaker(call, state)("DeleteModel", ModelName=identifier)
    except AwsError as error:
        if not gone(error, "model"):
            raise ProviderError(f"deleting sagemaker model: {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:sagemaker/model:Model",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS,
        delete=_delete,
        check=add_default_tags,
        customize=plan_tags,
    )
]
