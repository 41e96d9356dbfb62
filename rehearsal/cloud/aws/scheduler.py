"""EventBridge Scheduler: one-time schedules fire on the cloud's clock, with their role's permissions, and delete themselves.

Recurring ones (`rate`, `cron`) are stored and shown, and never fire.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rehearsal.cloud.aws import billing, policies
from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.ec2 import bodies, lifecycle
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.sagemaker import book, endpoints
from rehearsal.cloud.aws.state import State

TERMINATE = "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
DELETE_ENDPOINT = "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"
FIELDS = (
    "Name",
    "Description",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "EndDate",
    "State",
    "KmsKeyArn",
    "FlexibleTimeWindow",
    "Target",
    "ActionAfterCompletion",
)
RETRY = {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
AGAIN_S = 60.0
"""A target that failed is invoked again after this long; AWS's own back-off is not documented."""


def create(state: State, call: Call) -> Result:
    """CreateSchedule. Raises ConflictException for a name that is taken, ValidationException for what cannot fire."""
    name, params = call.params["Name"], call.params
    if name in state.schedules:
        raise AwsError("ConflictException", f"Schedule {name} already exists.", 409)
    schedule = _made(state, params, state.now())
    state.schedules[name] = schedule
    _set(state, schedule)
    return {"ScheduleArn": schedule["Arn"]}


def update(state: State, call: Call) -> Result:
    """UpdateSchedule: the whole schedule anew, what is not named has its default."""
    before = _get(state, call.params)
    schedule = _made(state, call.params, before["CreationDate"])
    before["_event"].cancel() if before.get("_event") else None
    state.schedules[schedule["Name"]] = schedule
    _set(state, schedule)
    return {"ScheduleArn": schedule["Arn"]}


def get(state: State, call: Call) -> Result:
    """GetSchedule."""
    return _shown(_get(state, call.params))


def delete(state: State, call: Call) -> Result:
    """DeleteSchedule."""
    _drop(state, _get(state, call.params))
    return {}


def listed(state: State, call: Call) -> Result:
    """ListSchedules."""
    prefix, keys = call.params.get("NamePrefix", ""), ("Arn", "Name", "GroupName", "State", "CreationDate", "LastModificationDate")
    found = [s for s in state.schedules.values() if s["Name"].startswith(prefix)]
    return {"Schedules": [{**{k: s[k] for k in keys}, "Target": {"Arn": s["Target"]["Arn"]}} for s in found]}


def tags(state: State, call: Call) -> Result:  # noqa: ARG001
    """ListTagsForResource: of the default group, which has none. A schedule itself cannot be tagged."""
    return {"Tags": []}


def group(state: State, call: Call) -> Result:
    """GetScheduleGroup: the default one alone is there."""
    if call.params["Name"] != "default":
        raise AwsError("ResourceNotFoundException", f"Schedule group {call.params['Name']} does not exist.", 404)
    return {"Arn": state.arn("scheduler", "schedule-group/default"), "Name": "default", "State": "ACTIVE"}


def _made(state: State, params: Json, created: datetime) -> Json:
    if params.get("GroupName", "default") != "default":
        raise AwsError("ResourceNotFoundException", f"Schedule group {params['GroupName']} does not exist.", 404)
    _when(params)
    _role(state, params["Target"]["RoleArn"])
    if params["FlexibleTimeWindow"]["Mode"] == "FLEXIBLE" and not params["FlexibleTimeWindow"].get("MaximumWindowInMinutes"):
        raise AwsError("ValidationException", "MaximumWindowInMinutes is required when the mode is FLEXIBLE.")
    defaults = {"State": "ENABLED", "ScheduleExpressionTimezone": "UTC", "ActionAfterCompletion": "NONE"}
    schedule: Json = {**defaults, **{k: params[k] for k in FIELDS if k in params}, "GroupName": "default"}
    schedule["Target"] = {"RetryPolicy": dict(RETRY), **schedule["Target"]}
    schedule["Arn"] = state.arn("scheduler", f"schedule/default/{params['Name']}")
    schedule["CreationDate"], schedule["LastModificationDate"] = created, state.now()
    return schedule


def _when(params: Json) -> float | None:
    """When a one-time schedule fires, epoch seconds; None for a recurring one. Raises AwsError for what is neither."""
    text = params["ScheduleExpression"]
    if re.fullmatch(r"rate\(\d+ (minutes?|hours?|days?)\)|cron\((\S+ ){5}\S+\)", text):
        return None
    found = re.fullmatch(r"at\((\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\)", text)
    try:
        zone = ZoneInfo(params.get("ScheduleExpressionTimezone") or "UTC")
        if found is not None:
            return datetime.fromisoformat(found.group(1)).replace(tzinfo=zone).astimezone(UTC).timestamp()
    except (ValueError, ZoneInfoNotFoundError):
        pass
    raise AwsError("ValidationException", f"Invalid Schedule Expression {text}.")


def fires_at(schedule: Json) -> float | None:
    """When it fires, epoch seconds; None for a recurring or disabled one."""
    return _when(schedule) if schedule["State"] == "ENABLED" else None


def _role(state: State, arn: str) -> Any:
    """The role, if Scheduler may assume it by now."""
    role = next((r for r in state.roles.view.roles.values() if r.arn == arn), None)
    context = {"aws:SourceAccount": state.account, "aws:SourceArn": state.arn("scheduler", "schedule-group/default")}
    if role is None or not policies.trusts(role.trust, "scheduler.amazonaws.com", context):
        raise AwsError(
            "ValidationException", "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
        )
    return role


def _get(state: State, params: Json) -> Json:
    found = state.schedules.get(params["Name"])
    if found is None or params.get("GroupName", "default") != "default":
        raise AwsError("ResourceNotFoundException", f"Schedule {params['Name']} does not exist.", 404)
    return found


def _shown(schedule: Json) -> Json:
    return {k: v for k, v in schedule.items() if not k.startswith("_")}


def _drop(state: State, schedule: Json) -> None:
    state.schedules.pop(schedule["Name"], None)
    if schedule.get("_event"):
        schedule["_event"].cancel()


def _set(state: State, schedule: Json) -> None:
    when = _when(schedule)
    if when is not None and schedule["State"] == "ENABLED":
        schedule["_event"] = state.clock.at(when, lambda: _fire(state, schedule, 0))


def _fire(state: State, schedule: Json, tried: int) -> None:
    with state.lock:
        if state.schedules.get(schedule["Name"]) is not schedule:
            return
        try:
            _invoke(state, schedule["Target"])
        except AwsError as failed:
            schedule["_failed"], schedule["_why"] = failed.code, str(failed)
            if tried < int(schedule["Target"]["RetryPolicy"].get("MaximumRetryAttempts", 185)):
                schedule["_event"] = state.clock.after(AGAIN_S, lambda: _fire(state, schedule, tried + 1))
                return
        if schedule["ActionAfterCompletion"] == "DELETE":
            _drop(state, schedule)


def _invoke(state: State, target: Json) -> None:
    """Do what the target says, as its role. Raises AwsError where the role may not, or what it acts on refuses."""
    if target["Arn"] == DELETE_ENDPOINT:
        return _delete_endpoint(state, target)
    if target["Arn"] != TERMINATE:
        state.problems.append(f"a schedule fired whose target is not modelled: {target['Arn']}")
        return
    role = _role(state, target["RoleArn"])
    for instance_id in json.loads(target.get("Input") or "{}").get("InstanceIds", []):
        instance = bodies.find(state, instance_id)
        if instance is None:
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        context = {f"ec2:ResourceTag/{k}": v for k, v in bodies.tags(instance).items()}
        context |= {f"aws:ResourceTag/{k}": v for k, v in bodies.tags(instance).items()}
        if not state.may(role, "ec2:TerminateInstances", state.arn("ec2", f"instance/{instance_id}"), context):
            raise AwsError("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)
        lifecycle.end(state, instance, lifecycle.USER, "instance-terminated-by-user")
    billing.settle(state)


def _delete_endpoint(state: State, target: Json) -> None:
    role, name = _role(state, target["RoleArn"]), json.loads(target.get("Input") or "{}").get("EndpointName", "")
    arn = book.arn(state, "endpoint", name)
    context = {f"aws:ResourceTag/{k}": v for k, v in state.sagemaker.tags.get(arn, {}).items()}
    context |= {f"sagemaker:ResourceTag/{k}": v for k, v in state.sagemaker.tags.get(arn, {}).items()}
    context["aws:CurrentTime"] = state.now().isoformat()
    if not state.may(role, "sagemaker:DeleteEndpoint", arn, context):
        raise AwsError("AccessDeniedException", f"not authorized to perform: sagemaker:DeleteEndpoint on resource: {arn}", 400)
    for scaled in state.scaling.of(name):
        named = {"service-namespace": scaled["ServiceNamespace"], "scalable-dimension": scaled["ScalableDimension"]}
        context = {f"application-autoscaling:{key}": value for key, value in named.items()}
        if not state.may(role, "application-autoscaling:DeregisterScalableTarget", scaled["ScalableTargetARN"], context):
            raise AwsError(
                "AccessDeniedException",
                "An Application AutoScaling scalable target exists for a variant being deleted, and the IAM identity used to "
                "invoke DeleteEndpoint does not have application-autoscaling:DeregisterScalableTarget permission to deregister the "
                "scalable target.",
            )
    endpoints.remove(state, endpoints.find(state, name))
    billing.settle(state)
