"""Application Auto Scaling: scalable targets, and target tracking of an endpoint's variant by the requests that it gets.

The two predefined metrics are worked out from the invocations that the local runtime counted. A minute's value above the target
three times makes the variant larger, fifteen minutes below nine tenths of it smaller: what CloudWatch's own alarms are set to.
"""

from __future__ import annotations

import math
import re
import uuid
from dataclasses import dataclass, field

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.sagemaker import endpoints
from rehearsal.cloud.aws.sagemaker.book import Endpoint
from rehearsal.cloud.aws.state import State

DIMENSION = "sagemaker:variant:DesiredInstanceCount"
RESOURCE = re.compile(r"endpoint/([^/]+)/variant/([^/]+)")
METRICS = ("SageMakerVariantInvocationsPerInstance", "SageMakerVariantConcurrentRequestsPerModelHighResolution")
EVERY_S, OUT, IN = 60.0, 3, 15
"""Seconds of a data point; how many above the target make it larger, how many below make it smaller."""
SLACK = 0.9

Key = tuple[str, str, str]


@dataclass
class Scaling:
    """Targets and policies by (namespace, resource, dimension); policies also by name. Called under the cloud's lock."""

    targets: dict[Key, Json] = field(default_factory=dict)
    policies: dict[tuple[Key, str], Json] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    points: dict[Key, list[float]] = field(default_factory=dict)
    scaled_at: dict[Key, float] = field(default_factory=dict)

    def of(self, endpoint: str) -> list[Json]:
        """The targets among an endpoint's variants."""
        return [target for key, target in self.targets.items() if key[1].startswith(f"endpoint/{endpoint}/variant/")]


def _key(params: Json) -> Key:
    return params["ServiceNamespace"], params["ResourceId"], params["ScalableDimension"]


def _checked(state: State, key: Key) -> Endpoint:
    found = RESOURCE.fullmatch(key[1])
    if key[0] != "sagemaker" or key[2] != DIMENSION or found is None:
        raise AwsError("ValidationException", f"the local cloud scales the variants of SageMaker endpoints only, not {key[1]}")
    endpoint = state.sagemaker.endpoints.get(found.group(1))
    if endpoint is None or endpoint.active is None or endpoint.active.variant["VariantName"] != found.group(2):
        raise AwsError("ValidationException", f'Could not find endpoint variant "{found.group(1)}/{found.group(2)}".')
    return endpoint


def register(state: State, call: Call) -> Result:
    """RegisterScalableTarget: made, or changed. What is out of its bounds comes back into them."""
    params, key = call.params, _key(call.params)
    _checked(state, key)
    known = state.scaling.targets.get(key)
    if known is None and not {"MinCapacity", "MaxCapacity"} <= params.keys():
        raise AwsError("ValidationException", "MinCapacity and MaxCapacity are required for a new scalable target.")
    if known is not None and params.get("Tags"):
        raise AwsError(
            "ValidationException",
            "The scalable target that you tried to tag already exists. To update tags on an existing scalable target, use the "
            "TagResource API.",
        )
    role = f"arn:aws:iam::{state.account}:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    made = known or {
        "ServiceNamespace": key[0],
        "ResourceId": key[1],
        "ScalableDimension": key[2],
        "CreationTime": state.now(),
        "RoleARN": role + "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint",
        "ScalableTargetARN": state.arn("application-autoscaling", f"scalable-target/{uuid.uuid4().hex}"),
    }
    suspended = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")
    made["SuspendedState"] = {k: bool((params.get("SuspendedState") or made.get("SuspendedState") or {}).get(k)) for k in suspended}
    made |= {k: params[k] for k in ("MinCapacity", "MaxCapacity") if k in params}
    if made["MinCapacity"] > made["MaxCapacity"]:
        raise AwsError("ValidationException", "Maximum capacity cannot be less than minimum capacity")
    state.scaling.targets[key] = made
    if known is None:
        state.scaling.tags[made["ScalableTargetARN"]] = dict(params.get("Tags") or {})
        state.clock.after(EVERY_S, lambda: _minute(state, key))
    return {"ScalableTargetARN": made["ScalableTargetARN"]}


def describe(state: State, call: Call) -> Result:
    """DescribeScalableTargets."""
    ids, dimension = call.params.get("ResourceIds"), call.params.get("ScalableDimension")
    found = [
        target
        for (namespace, resource, dim), target in state.scaling.targets.items()
        if namespace == call.params["ServiceNamespace"] and (ids is None or resource in ids) and dimension in (None, dim)
    ]
    return {"ScalableTargets": found}


def deregister(state: State, call: Call) -> Result:
    """DeregisterScalableTarget, with its policies."""
    key = _key(call.params)
    if key not in state.scaling.targets:
        raise AwsError("ObjectNotFoundException", f"No scalable target found for {', '.join(key)}")
    _drop(state, key)
    return {}


def _drop(state: State, key: Key) -> None:
    state.scaling.tags.pop(state.scaling.targets.pop(key)["ScalableTargetARN"], None)
    state.scaling.policies = {k: p for k, p in state.scaling.policies.items() if k[0] != key}
    state.scaling.points.pop(key, None)


def put_policy(state: State, call: Call) -> Result:
    """PutScalingPolicy: target tracking of a predefined metric."""
    params, key = call.params, _key(call.params)
    if key not in state.scaling.targets:
        raise AwsError("ObjectNotFoundException", f"No scalable target registered for {', '.join(key)}")
    tracking = params.get("TargetTrackingScalingPolicyConfiguration", {})
    metric = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    if params.get("PolicyType") != "TargetTrackingScaling" or metric not in METRICS:
        raise AwsError("ValidationException", f"the local cloud has target tracking of {' and '.join(METRICS)} only")
    name = params["PolicyName"]
    known = state.scaling.policies.get((key, name))
    arn = state.arn("autoscaling", f"scalingPolicy:{uuid.uuid4()}:resource/{key[0]}/{key[1]}:policyName/{name}")
    made: Json = {
        **{k: params[k] for k in ("PolicyName", "ServiceNamespace", "ResourceId", "ScalableDimension", "PolicyType")},
        "TargetTrackingScalingPolicyConfiguration": tracking,
        "PolicyARN": known["PolicyARN"] if known else arn,
        "CreationTime": known["CreationTime"] if known else state.now(),
        "Alarms": [_alarm(state, key, way) for way in ("AlarmHigh", "AlarmLow")],
    }
    state.scaling.policies[key, name] = made
    return {"PolicyARN": made["PolicyARN"], "Alarms": made["Alarms"]}


def _alarm(state: State, key: Key, way: str) -> Json:
    name = f"TargetTracking-{key[1]}-{way}"
    return {"AlarmName": name, "AlarmARN": state.arn("cloudwatch", f"alarm:{name}")}


def policies(state: State, call: Call) -> Result:
    """DescribeScalingPolicies."""
    params = call.params
    names, resource, dimension = params.get("PolicyNames"), params.get("ResourceId"), params.get("ScalableDimension")
    found = [
        policy
        for (key, name), policy in state.scaling.policies.items()
        if key[0] == params["ServiceNamespace"]
        and (names is None or name in names)
        and resource in (None, key[1])
        and dimension in (None, key[2])
    ]
    return {"ScalingPolicies": found}


def delete_policy(state: State, call: Call) -> Result:
    """DeleteScalingPolicy."""
    key = (_key(call.params), call.params["PolicyName"])
    if key not in state.scaling.policies:
        raise AwsError("ObjectNotFoundException", f"No scaling policy found for {key[1]}")
    del state.scaling.policies[key]
    return {}


def tags(state: State, call: Call) -> Result:
    """ListTagsForResource."""
    return {"Tags": dict(_tagged(state, call.params["ResourceARN"]))}


def tag(state: State, call: Call) -> Result:
    """TagResource."""
    _tagged(state, call.params["ResourceARN"]).update(call.params["Tags"])
    return {}


def untag(state: State, call: Call) -> Result:
    """UntagResource."""
    for key in call.params["TagKeys"]:
        _tagged(state, call.params["ResourceARN"]).pop(key, None)
    return {}


def _tagged(state: State, arn: str) -> dict[str, str]:
    found = state.scaling.tags.get(arn)
    if found is None:
        raise AwsError("ResourceNotFoundException", f"The specified resource does not exist: {arn}")
    return found


def _minute(state: State, key: Key) -> None:
    """One data point, and what follows from those so far. An endpoint that is gone takes its target with it."""
    with state.lock:
        if key not in state.scaling.targets:
            return
        found = RESOURCE.fullmatch(key[1])
        endpoint = state.sagemaker.endpoints.get(found.group(1)) if found is not None else None
        if endpoint is None:
            return _drop(state, key)
        state.clock.after(EVERY_S, lambda: _minute(state, key))
        policy = next((p for (k, _), p in state.scaling.policies.items() if k == key), None)
        if endpoint.status == "InService" and endpoint.active is not None and policy is not None:
            _track(state, key, endpoint, policy["TargetTrackingScalingPolicyConfiguration"])


def _track(state: State, key: Key, endpoint: Endpoint, tracking: Json) -> None:
    fleet, now, target = endpoint.active, state.clock.now(), state.scaling.targets[key]
    assert fleet is not None
    count, wanted = len(fleet.instances), float(tracking["TargetValue"])
    if tracking["PredefinedMetricSpecification"]["PredefinedMetricType"] == METRICS[0]:
        load = sum(at > now - EVERY_S for at in endpoint.invoked) / count
    else:
        load = sum(i.busy for i in fleet.instances) / count
    points = state.scaling.points.setdefault(key, [])
    points.append(load)
    del points[:-IN]
    last = state.scaling.scaled_at.get(key, -math.inf)
    suspended = target["SuspendedState"]
    size = count
    if len(points) >= OUT and min(points[-OUT:]) > wanted and now - last >= tracking.get("ScaleOutCooldown", 300):
        size = count if suspended["DynamicScalingOutSuspended"] else math.ceil(count * load / wanted)
    elif len(points) >= IN and max(points) < SLACK * wanted and now - last >= tracking.get("ScaleInCooldown", 300):
        kept = suspended["DynamicScalingInSuspended"] or tracking.get("DisableScaleIn")
        size = count if kept else max(1, math.ceil(count * max(points) / wanted))
    size = min(max(size, target["MinCapacity"]), target["MaxCapacity"])
    if size != count:
        state.scaling.scaled_at[key] = now
        points.clear()
        endpoints.resize(state, endpoint, size)
