"""`appautoscaling.Target` and `appautoscaling.Policy`. A target's id is its resource's, a policy's its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_changes, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, block, flag, items, number, out, text, unsent
from rehearsal.providers.values import Values

PROPAGATION: Final = 120.0
GONE: Final = "ObjectNotFoundException"

_WHAT: Final[Fields] = {
    "resourceId": text(required=True, replace=True),
    "scalableDimension": text(required=True, replace=True),
    "serviceNamespace": text(required=True, replace=True),
}
TARGET: Final[Fields] = {
    "arn": out(),
    "maxCapacity": number(required=True),
    "minCapacity": number(required=True),
    **REGION,
    "roleArn": text(computed=True),
    "suspendedState": unsent(Prop(computed=True)),
    **TAGS,
    **_WHAT,
}
_TRACKING: Final[Fields] = {
    "customizedMetricSpecification": unsent(Prop()),
    "disableScaleIn": flag(default=False),
    "predefinedMetricSpecification": block({"predefinedMetricType": text(required=True), "resourceLabel": text()}),
    "scaleInCooldown": number(),
    "scaleOutCooldown": number(),
    "targetValue": Prop(zero=0, required=True),
}
POLICY: Final[Fields] = {
    "alarmArns": out(items()),
    "arn": out(),
    "name": text(autoname=True, computed=True, replace=True),
    "policyType": text(default="StepScaling"),
    "predictiveScalingPolicyConfiguration": unsent(Prop()),
    **REGION,
    "stepScalingPolicyConfiguration": unsent(Prop()),
    "targetTrackingScalingPolicyConfiguration": block(_TRACKING),
    **_WHAT,
}


def _scaling(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    return call.api.service("application-autoscaling", values.get("region"))


def _what(values: Mapping[str, Any]) -> Values:
    return {key[0].upper() + key[1:]: values[key] for key in _WHAT}


def _located(call: Call[Aws], identifier: str) -> Values:
    """What an import's id says: NAMESPACE/RESOURCE/DIMENSION, and for a policy /NAME. It is no longer the id after that."""
    namespace, _, rest = identifier.partition("/")
    resource, _, last = rest.rpartition("/")
    if resource.count("/") > 3:  # a policy's
        resource, _, dimension = resource.rpartition("/")
        found = {"serviceNamespace": namespace, "resourceId": resource, "scalableDimension": dimension}
        return found | {"name": last}
    return {"serviceNamespace": namespace, "resourceId": resource, "scalableDimension": last}


# Target


def _register(call: Call[Aws], values: Mapping[str, Any], **more: Any) -> None:
    asked = {**_what(values), "MinCapacity": int(values["minCapacity"]), "MaxCapacity": int(values["maxCapacity"]), **more}
    if values.get("roleArn"):
        asked["RoleARN"] = values["roleArn"]
    send = _scaling(call, values)
    retry(
        call.api,
        PROPAGATION,
        lambda: send("RegisterScalableTarget", **asked),
        ("ValidationException", "Unable to assume IAM role"),
    )


def _create_target(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    tags = {"Tags": dict(planned["tagsAll"])} if planned.get("tagsAll") else {}
    identifier = str(planned["resourceId"])
    try:
        _register(call, planned, **tags)
    except AwsError as error:
        raise ProviderError(f"creating Application AutoScaling Target ({identifier}): {error}") from error
    told = _read_target(call, identifier, planned)
    if told is None:
        raise Incomplete(identifier, {}, f"reading Application AutoScaling Target ({identifier}): couldn't find resource")
    return identifier, told


def _read_target(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = _scaling(call, before)
    asked = {"ResourceIds": [before["resourceId"]], "ScalableDimension": before["scalableDimension"]}
    found = send("DescribeScalableTargets", ServiceNamespace=before["serviceNamespace"], **asked)["ScalableTargets"]
    if not found:
        return None
    (there,) = found
    tags = send("ListTagsForResource", ResourceARN=there["ScalableTargetARN"])["Tags"]
    return {
        "arn": there["ScalableTargetARN"],
        "maxCapacity": there["MaxCapacity"],
        "minCapacity": there["MinCapacity"],
        "region": region_of(call, before),
        "resourceId": there["ResourceId"],
        "roleArn": there["RoleARN"],
        "scalableDimension": there["ScalableDimension"],
        "serviceNamespace": there["ServiceNamespace"],
        **told_tags(call.api, [{"Key": k, "Value": v} for k, v in tags.items()], before),
    }


def _update_target(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = _scaling(call, change.state)
    if change.touches("maxCapacity", "minCapacity", "roleArn"):
        try:
            _register(call, change.planned)
        except AwsError as error:
            raise ProviderError(f"updating Application AutoScaling Target ({identifier}): {error}") from error
    if change.touches("tagsAll"):
        away, wanted = tag_changes(change)
        if away:
            send("UntagResource", ResourceARN=change.state["arn"], TagKeys=away)
        if wanted:
            send("TagResource", ResourceARN=change.state["arn"], Tags=wanted)
    return _read_target(call, identifier, change.planned) or {}


def _delete_target(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        _scaling(call, state)("DeregisterScalableTarget", **_what(state))
    except AwsError as error:
        if not error.says(GONE):
            raise ProviderError(f"deleting Application AutoScaling Target ({identifier}): {error}") from error


# Policy


def _put(call: Call[Aws], values: Mapping[str, Any], name: str) -> None:
    given = values.get("targetTrackingScalingPolicyConfiguration") or {}
    metric = given.get("predefinedMetricSpecification") or {}
    tracking: Values = {
        "TargetValue": float(given.get("targetValue", 0)),
        "DisableScaleIn": bool(given.get("disableScaleIn")),
        "PredefinedMetricSpecification": {
            key: value
            for key, value in {
                "PredefinedMetricType": metric.get("predefinedMetricType"),
                "ResourceLabel": metric.get("resourceLabel"),
            }.items()
            if value
        },
    }
    for key, sent in (("scaleInCooldown", "ScaleInCooldown"), ("scaleOutCooldown", "ScaleOutCooldown")):
        if given.get(key):
            tracking[sent] = int(given[key])
    send, asked = _scaling(call, values), {**_what(values), "PolicyName": name, "PolicyType": values.get("policyType")}
    retry(
        call.api,
        PROPAGATION,
        lambda: send("PutScalingPolicy", **asked, TargetTrackingScalingPolicyConfiguration=tracking),
        (GONE, ""),
        ("FailedResourceAccessException", ""),
    )


def _create_policy(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    name = str(planned["name"])
    try:
        _put(call, planned, name)
    except AwsError as error:
        raise ProviderError(f"creating Application Auto Scaling Scaling Policy ({name}): {error}") from error
    told = _read_policy(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"reading Application Auto Scaling Scaling Policy ({name}): couldn't find resource")
    return name, told


def _read_policy(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    asked = {**_what(before), "PolicyNames": [before.get("name") or identifier]}
    found = _scaling(call, before)("DescribeScalingPolicies", **asked)["ScalingPolicies"]
    if not found:
        return None
    (there,) = found
    tracking = there["TargetTrackingScalingPolicyConfiguration"]
    metric = tracking.get("PredefinedMetricSpecification") or {}
    return {
        "alarmArns": [alarm["AlarmARN"] for alarm in there.get("Alarms") or []],
        "arn": there["PolicyARN"],
        "name": there["PolicyName"],
        "policyType": there["PolicyType"],
        "region": region_of(call, before),
        "resourceId": there["ResourceId"],
        "scalableDimension": there["ScalableDimension"],
        "serviceNamespace": there["ServiceNamespace"],
        "targetTrackingScalingPolicyConfiguration": {
            "disableScaleIn": bool(tracking.get("DisableScaleIn")),
            "predefinedMetricSpecification": {
                "predefinedMetricType": metric.get("PredefinedMetricType", ""),
                "resourceLabel": metric.get("ResourceLabel", ""),
            },
            "scaleInCooldown": tracking.get("ScaleInCooldown", 0),
            "scaleOutCooldown": tracking.get("ScaleOutCooldown", 0),
            "targetValue": tracking["TargetValue"],
        },
    }


def _update_policy(call: Call[Aws], identifier: str, change: Change) -> Values:
    try:
        _put(call, change.planned, identifier)
    except AwsError as error:
        raise ProviderError(f"updating Application Auto Scaling Scaling Policy ({identifier}): {error}") from error
    return _read_policy(call, identifier, change.planned) or {}


def _delete_policy(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        _scaling(call, state)("DeleteScalingPolicy", **_what(state), PolicyName=identifier)
    except AwsError as error:
        if not error.says(GONE):
            raise ProviderError(f"deleting Application Auto Scaling Scaling Policy ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:appautoscaling/target:Target",
        fields=TARGET,
        create=_create_target,
        read=_read_target,
        update=_update_target,
        updates=TAG_MAPS | {"maxCapacity", "minCapacity", "roleArn"},
        delete=_delete_target,
        check=add_default_tags,
        customize=plan_tags,
        import_state=_located,
    ),
    Resource(
        token="aws:appautoscaling/policy:Policy",
        fields=POLICY,
        create=_create_policy,
        read=_read_policy,
        update=_update_policy,
        updates=frozenset({"policyType", "targetTrackingScalingPolicyConfiguration"}),
        delete=_delete_policy,
        import_state=_located,
    ),
]
