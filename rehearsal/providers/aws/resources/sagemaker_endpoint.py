"""`sagemaker.Endpoint`. Its id is set only when it serves: a create that fails leaves nothing in the state, and the endpoint in the
cloud. An endpoint that is being deleted counts as gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import name_of
from rehearsal.providers.aws.sagemaker import found, gone, sagemaker, tags, update_tags
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, block, blocks, number, out, text
from rehearsal.providers.values import Values
from rehearsal.providers.waits import NeverSeen, TimedOutWaiting, UnexpectedState, Waiter

PENDING: Final = frozenset({"Creating", "Updating", "SystemUpdating"})
CREATED_S, DELETED_S, AGAIN_S = 3600.0, 600.0, 120.0
LATE_ROLE: Final = (
    'Please ensure that the role exists and that its trust relationship policy allows the action "sts:AssumeRole" for the service'
    ' principal "sagemaker.amazonaws.com"'
)

_SIZE: Final[Fields] = {"type": text(required=True), "value": number(required=True)}
_DEPLOYMENT: Final[Fields] = {
    "autoRollbackConfiguration": block({"alarms": blocks({"alarmName": text(required=True)}, unordered=True)}, replace=True),
    "blueGreenUpdatePolicy": block(
        {
            "maximumExecutionTimeoutInSeconds": number(),
            "terminationWaitInSeconds": number(default=0),
            "trafficRoutingConfiguration": block(
                {
                    "canarySize": block(_SIZE),
                    "linearStepSize": block(_SIZE),
                    "type": text(required=True),
                    "waitIntervalInSeconds": number(required=True),
                },
                required=True,
            ),
        }
    ),
    "rollingUpdatePolicy": block(
        {
            "maximumBatchSize": block(_SIZE, required=True),
            "maximumExecutionTimeoutInSeconds": number(),
            "rollbackMaximumBatchSize": block(_SIZE),
            "waitIntervalInSeconds": number(required=True),
        }
    ),
}

FIELDS: Final[Fields] = {
    "arn": out(),
    "deploymentConfig": block(_DEPLOYMENT),
    "endpointConfigName": text(required=True),
    "name": text(autoname=True, computed=True, replace=True),
    **REGION,
    **TAGS,
}


_UNSET: Final[Mapping[str, tuple[Any, ...]]] = {"maximumExecutionTimeoutInSeconds": (0,)}
"""Numbers whose 0 is not sent; every other 0 is."""


def _upper(key: str) -> str:
    return key[0].upper() + key[1:]


def _lower(key: str) -> str:
    return key[0].lower() + key[1:]


def _sent(value: Any) -> Any:
    """A block as AWS takes it: the same names with a capital, without what is not set."""
    if isinstance(value, Mapping):
        return {_upper(key): _sent(item) for key, item in value.items() if item not in ((None, "", [], {}, *_UNSET.get(key, ())))}
    if isinstance(value, list):
        return [_sent(item) for item in value]
    return int(value) if isinstance(value, float) else value


def _told_block(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_lower(key): _told_block(item) for key, item in value.items()}
    return [_told_block(item) for item in value] if isinstance(value, list) else value


def _asked(planned: Mapping[str, Any]) -> Values:
    asked: Values = {"EndpointConfigName": planned["endpointConfigName"]}
    if planned.get("deploymentConfig"):
        asked["DeploymentConfig"] = _sent(planned["deploymentConfig"])
    return asked


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name, slept = sagemaker(call, planned), name_of(planned), 0.0
    given = {"Tags": tag} if (tag := tag_list(planned.get("tagsAll"))) else {}
    while True:
        try:
            send("CreateEndpoint", EndpointName=name, **_asked(planned), **given)
        except AwsError as error:
            raise ProviderError(f"creating SageMaker AI Endpoint ({name}): {error}") from error
        try:
            _wait(call, send, name)
            break
        except ProviderError as error:
            if LATE_ROLE not in str(error) or slept >= AGAIN_S:
                raise ProviderError(f"waiting for SageMaker AI Endpoint ({name}) create: {error}") from error
        _delete(call, name, planned)
        call.api.sleep(10.0)
        slept += 10.0
    told = _read(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"reading SageMaker AI Endpoint ({name}): couldn't find resource")
    return name, told


def _look(send: Send, name: str) -> tuple[Values | None, str]:
    there = found(send, "endpoint", "DescribeEndpoint", EndpointName=name)
    if there is None or there["EndpointStatus"] == "Deleting":
        return None, ""
    return there, str(there["EndpointStatus"])


def _wait(call: Call[Aws], send: Send, name: str) -> None:
    """Until it serves. Raises ProviderError with AWS's own reason behind the waiter's words."""
    last: list[str] = []

    def look() -> tuple[Values | None, str]:
        there, status = _look(send, name)
        last[:] = [str(there["FailureReason"])] if there is not None and there.get("FailureReason") else []
        return there, status

    try:
        Waiter("InService", CREATED_S, pending=PENDING).wait(look, call.api.sleep)
    except (NeverSeen, TimedOutWaiting, UnexpectedState) as error:
        raise ProviderError(f"{error}{'. last error: ' if last else ''}{''.join(last)}") from error


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = sagemaker(call, before)
    there, _ = _look(send, identifier)
    if there is None:
        return None
    deployment = there.get("LastDeploymentConfig")
    return {
        "arn": there["EndpointArn"],
        "deploymentConfig": _told_block(deployment) if deployment else None,
        "endpointConfigName": there["EndpointConfigName"],
        "name": there["EndpointName"],
        "region": region_of(call, before),
        **told_tags(call.api, tags(send, there["EndpointArn"]), before),
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = sagemaker(call, change.state)
    update_tags(send, str(change.state["arn"]), change)
    if change.touches("endpointConfigName", "deploymentConfig"):
        try:
            send("UpdateEndpoint", EndpointName=identifier, **_asked(change.planned))
        except AwsError as error:
            raise ProviderError(f"updating SageMaker AI Endpoint ({identifier}): {error}") from error
        try:
            _wait(call, send, identifier)
        except ProviderError as error:
            raise ProviderError(f"waiting for SageMaker AI Endpoint ({identifier}) update: {error}") from error
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = sagemaker(call, state)
    try:
        send("DeleteEndpoint", EndpointName=identifier)
    except AwsError as error:
        if gone(error, "endpoint"):
            return
        raise ProviderError(f"deleting SageMaker AI Endpoint ({identifier}): {error}") from error
    try:
        Waiter("", DELETED_S).until_gone(lambda: _look(send, identifier), call.api.sleep)
    except (TimedOutWaiting, UnexpectedState) as error:
        raise ProviderError(f"waiting for SageMaker AI Endpoint ({identifier}) delete: {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:sagemaker/endpoint:Endpoint",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS | {"deploymentConfig", "endpointConfigName"},
        delete=_delete,
        check=add_default_tags,
        customize=plan_tags,
    )
]
