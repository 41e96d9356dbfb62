"""`sagemaker.EndpointConfiguration`. It never changes but for its tags: everything else needs a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import NAMED, name_of, told_name
from rehearsal.providers.aws.sagemaker import found, gone, sagemaker, tags, update_tags
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, blocks, flag, number, out, text, unsent
from rehearsal.providers.values import Values

_VARIANT: Final[Fields] = {
    "acceleratorType": unsent(text(replace=True)),
    "capacityReservationConfig": unsent(Prop()),
    "containerStartupHealthCheckTimeoutInSeconds": number(replace=True),
    "coreDumpConfig": unsent(Prop()),
    "enableSsmAccess": flag(replace=True),
    "inferenceAmiVersion": text(replace=True),
    "initialInstanceCount": number(replace=True),
    "initialVariantWeight": Prop(zero=0, default=1, replace=True),
    "instanceType": text(replace=True),
    "managedInstanceScaling": unsent(Prop()),
    "modelDataDownloadTimeoutInSeconds": number(replace=True),
    "modelName": text(replace=True),
    "routingConfigs": blocks({"routingStrategy": text(required=True, replace=True)}),
    "serverlessConfig": unsent(Prop()),
    "variantName": text(computed=True, replace=True),
    "volumeSizeInGb": number(computed=True, replace=True),
}

_SENT: Final = {
    "containerStartupHealthCheckTimeoutInSeconds": "ContainerStartupHealthCheckTimeoutInSeconds",
    "enableSsmAccess": "EnableSSMAccess",
    "inferenceAmiVersion": "InferenceAmiVersion",
    "initialInstanceCount": "InitialInstanceCount",
    "instanceType": "InstanceType",
    "modelDataDownloadTimeoutInSeconds": "ModelDataDownloadTimeoutInSeconds",
    "modelName": "ModelName",
    "variantName": "VariantName",
    "volumeSizeInGb": "VolumeSizeInGB",
}
"""Properties of a variant that are sent where they are not the cloud's nothing."""

FIELDS: Final[Fields] = {
    "arn": out(),
    "asyncInferenceConfig": unsent(Prop(replace=True)),
    "dataCaptureConfig": unsent(Prop(replace=True)),
    "executionRoleArn": unsent(text(replace=True)),
    "kmsKeyArn": unsent(text(replace=True)),
    **NAMED,
    "productionVariants": blocks(_VARIANT, required=True),
    **REGION,
    "shadowProductionVariants": unsent(blocks({}, zero=None)),
    **TAGS,
}


def _variant(given: Mapping[str, Any]) -> Values:
    sent: Values = {name: given[key] for key, name in _SENT.items() if given.get(key)}
    sent["InitialVariantWeight"] = float(given.get("initialVariantWeight", 1))
    sent.setdefault("VariantName", name_of({}))
    routing = given.get("routingConfigs") or []
    if routing:
        sent["RoutingConfig"] = {"RoutingStrategy": routing[0]["routingStrategy"]}
    for key in ("InitialInstanceCount", "VolumeSizeInGB", "ContainerStartupHealthCheckTimeoutInSeconds"):
        if key in sent:
            sent[key] = int(sent[key])
    return sent


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = sagemaker(call, planned), name_of(planned)
    asked: Values = {"ProductionVariants": [_variant(item) for item in planned["productionVariants"]]}
    if tag := tag_list(planned.get("tagsAll")):
        asked["Tags"] = tag
    try:
        send("CreateEndpointConfig", EndpointConfigName=name, **asked)
    except AwsError as error:
        raise ProviderError(f"creating SageMaker AI Endpoint Configuration: {error}") from error
    told = _read(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"reading SageMaker AI Endpoint Configuration ({name}): couldn't find resource")
    return name, told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = sagemaker(call, before)
    there = found(send, "config", "DescribeEndpointConfig", EndpointConfigName=identifier)
    if there is None:
        return None
    return {
        "arn": there["EndpointConfigArn"],
        "productionVariants": [_told(item) for item in there["ProductionVariants"]],
        "region": region_of(call, before),
        **told_name(there["EndpointConfigName"], before),
        **told_tags(call.api, tags(send, there["EndpointConfigArn"]), before),
    }


def _told(there: Mapping[str, Any]) -> Values:
    routing = there.get("RoutingConfig")
    return {
        **{key: there[name] for key, name in _SENT.items() if there.get(name)},
        "initialVariantWeight": there.get("InitialVariantWeight", 0),
        "routingConfigs": [{"routingStrategy": routing["RoutingStrategy"]}] if routing else [],
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    update_tags(sagemaker(call, change.state), str(change.state["arn"]), change)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        sagemaker(call, state)("DeleteEndpointConfig", EndpointConfigName=identifier)
    except AwsError as error:
        if not gone(error, "config"):
            raise ProviderError(f"deleting SageMaker AI Endpoint Configuration ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:sagemaker/endpointConfiguration:EndpointConfiguration",
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
