"""Models."""

from __future__ import annotations

from rehearsal.cloud.aws import side
from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.sagemaker import book, images
from rehearsal.cloud.aws.state import State

SERVICE = "sagemaker.amazonaws.com"
LARGEST_ENVIRONMENT = 32 * 1024
"""Bytes of all names and values of a container's environment."""
KEPT = ("PrimaryContainer", "Containers", "InferenceExecutionConfig", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")


def create(state: State, call: Call) -> Result:
    """CreateModel. Raises ValidationException for a role that cannot be assumed yet, and for an image that will not do."""
    params, name = call.params, call.params["ModelName"]
    if name in state.sagemaker.models:
        raise book.taken(state, "model", name)
    role = params.get("ExecutionRoleArn", "")
    if side.assumed(state, role, SERVICE) is None:
        raise AwsError(
            "ValidationException",
            f"Could not assume role {role}. Please ensure that the role exists and allows principal '{SERVICE}' to assume the"
            " role.",
        )
    for container in _containers(params):
        size = sum(len(k.encode()) + len(v.encode()) for k, v in container.get("Environment", {}).items())
        if size > LARGEST_ENVIRONMENT:
            raise AwsError(
                "ValidationException", f"The environment of the container is {size} bytes; at most {LARGEST_ENVIRONMENT}."
            )
        images.check(state, container["Image"])
    at = book.arn(state, "model", name)
    state.sagemaker.models[name] = {
        "ModelName": name,
        "ModelArn": at,
        "CreationTime": state.now(),
        "EnableNetworkIsolation": False,
        **{key: params[key] for key in KEPT if key in params},
    }
    book.keep_tags(state, at, call)
    return {"ModelArn": at}


def _containers(params: Json) -> list[Json]:
    found = [params["PrimaryContainer"]] if "PrimaryContainer" in params else params.get("Containers", [])
    if len(found) != 1:
        raise AwsError("ValidationException", "the local cloud runs one container a model: PrimaryContainer, or a list of one")
    if "Image" not in found[0]:
        raise AwsError("ValidationException", "the local cloud runs a container with an Image of its own only")
    return found


def container(model: Json) -> Json:
    """The one container of a model."""
    return _containers(model)[0]


def find(state: State, name: str) -> Json:
    """Raises ValidationException without it."""
    found = state.sagemaker.models.get(name)
    if found is None:
        raise book.missing(state, "model", name)
    return found


def describe(state: State, call: Call) -> Result:
    """DescribeModel: with the environment, as it is."""
    return dict(find(state, call.params["ModelName"]))


def delete(state: State, call: Call) -> Result:
    """DeleteModel: also one that an endpoint uses; its containers run on."""
    found = find(state, call.params["ModelName"])
    del state.sagemaker.models[found["ModelName"]]
    state.sagemaker.tags.pop(found["ModelArn"], None)
    return None


def listed(state: State, call: Call) -> Result:
    """ListModels."""
    part = call.params.get("NameContains", "")
    keys = ("ModelName", "ModelArn", "CreationTime")
    return {"Models": [{k: m[k] for k in keys} for n, m in sorted(state.sagemaker.models.items()) if part in n]}
