"""Endpoint configurations. They never change; CreateEndpoint sees one only some time after it was made (`Pace.config`)."""

from __future__ import annotations

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.sagemaker import book, models
from rehearsal.cloud.aws.state import State

KEPT = ("ProductionVariants", "KmsKeyId", "DataCaptureConfig", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")


def create(state: State, call: Call) -> Result:
    """CreateEndpointConfig."""
    params, name = call.params, call.params["EndpointConfigName"]
    if name in state.sagemaker.configs:
        raise book.taken(state, "endpoint-config", name)
    for variant in params["ProductionVariants"]:
        _check(state, variant)
    at = book.arn(state, "endpoint-config", name)
    state.sagemaker.configs[name] = {
        "EndpointConfigName": name,
        "EndpointConfigArn": at,
        "CreationTime": state.now(),
        **{key: params[key] for key in KEPT if key in params},
        "ProductionVariants": [{"InitialVariantWeight": 1.0, **variant} for variant in params["ProductionVariants"]],
    }
    book.keep_tags(state, at, call)
    return {"EndpointConfigArn": at}


def _check(state: State, variant: Json) -> None:
    for key in ("ModelName", "InstanceType", "InitialInstanceCount"):
        if key not in variant:
            raise AwsError("ValidationException", f"the local cloud has instance-based variants of one model: {key} is missing")
    models.find(state, variant["ModelName"])


def find(state: State, name: str) -> Json:
    """Raises ValidationException without it."""
    found = state.sagemaker.configs.get(name)
    if found is None:
        raise book.missing(state, "endpoint-config", name)
    return found


def seen(state: State, name: str) -> Json:
    """As CreateEndpoint sees it: not yet, where it was just made."""
    found = find(state, name)
    if (state.now() - found["CreationTime"]).total_seconds() < state.pace.config:
        raise book.missing(state, "endpoint-config", name)
    return found


def describe(state: State, call: Call) -> Result:
    """DescribeEndpointConfig."""
    return dict(find(state, call.params["EndpointConfigName"]))


def delete(state: State, call: Call) -> Result:
    """DeleteEndpointConfig: also one in use, after which its endpoint cannot be updated any more."""
    found = find(state, call.params["EndpointConfigName"])
    del state.sagemaker.configs[found["EndpointConfigName"]]
    state.sagemaker.tags.pop(found["EndpointConfigArn"], None)
    return None


def listed(state: State, call: Call) -> Result:
    """ListEndpointConfigs."""
    part = call.params.get("NameContains", "")
    keys = ("EndpointConfigName", "EndpointConfigArn", "CreationTime")
    return {"EndpointConfigs": [{k: c[k] for k in keys} for n, c in sorted(state.sagemaker.configs.items()) if part in n]}
