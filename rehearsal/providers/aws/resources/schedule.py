"""`scheduler.Schedule`. Its id is GROUP/NAME. A role that was just made may not be known to the scheduler for two minutes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import NAMED, name_of, told_name
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, block, number, out, text, unsent
from rehearsal.providers.values import Values

PROPAGATION: Final = 120.0
_LATE_ROLE: Final = (
    "ValidationException",
    "The execution role you provide must allow AWS EventBridge Scheduler to assume the role.",
)
_GONE: Final = "ResourceNotFoundException"
_DEFAULT_GROUP: Final = "default"

_TARGET: Final[Fields] = {
    "arn": text(required=True),
    "deadLetterConfig": unsent(Prop()),
    "ecsParameters": unsent(Prop()),
    "eventbridgeParameters": unsent(Prop()),
    "input": text(),
    "kinesisParameters": unsent(Prop()),
    # Without one the official provider keeps the service's own.
    "retryPolicy": block(
        {"maximumEventAgeInSeconds": number(default=86400), "maximumRetryAttempts": number(default=185)}, computed=True
    ),
    "roleArn": text(required=True),
    "sagemakerPipelineParameters": unsent(Prop()),
    "sqsParameters": unsent(Prop()),
}

FIELDS: Final[Fields] = {
    "actionAfterCompletion": text(computed=True),
    "arn": out(),
    "description": text(),
    "endDate": text(),
    "flexibleTimeWindow": block({"maximumWindowInMinutes": number(), "mode": text(required=True)}, required=True),
    "groupName": text(computed=True, replace=True),
    "kmsKeyArn": unsent(text()),
    **NAMED,
    **REGION,
    "scheduleExpression": text(required=True),
    "scheduleExpressionTimezone": text(default="UTC"),
    "startDate": text(),
    "state": text(default="ENABLED"),
    "target": block(_TARGET, required=True),
}


def _scheduler(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    return call.api.service("scheduler", values.get("region"))


def _asked(planned: Mapping[str, Any]) -> Values:
    """The whole schedule, as create and update send it."""
    window, target = planned["flexibleTimeWindow"], planned["target"]
    retry_policy = target.get("retryPolicy") or {}
    sent_target: Values = {
        "Arn": target["arn"],
        "RoleArn": target["roleArn"],
        "Input": target.get("input"),
        "RetryPolicy": {
            "MaximumEventAgeInSeconds": retry_policy.get("maximumEventAgeInSeconds"),
            "MaximumRetryAttempts": retry_policy.get("maximumRetryAttempts"),
        }
        if retry_policy
        else None,
    }
    sent_window = {"Mode": window["mode"], "MaximumWindowInMinutes": window.get("maximumWindowInMinutes")}
    asked: Values = {
        "ActionAfterCompletion": planned.get("actionAfterCompletion"),
        "Description": planned.get("description"),
        "EndDate": _time(planned.get("endDate")),
        "FlexibleTimeWindow": {key: value for key, value in sent_window.items() if value},
        "GroupName": planned.get("groupName"),
        "ScheduleExpression": planned["scheduleExpression"],
        "ScheduleExpressionTimezone": planned.get("scheduleExpressionTimezone"),
        "StartDate": _time(planned.get("startDate")),
        "State": planned.get("state"),
        "Target": {key: value for key, value in sent_target.items() if value},
    }
    return {key: value for key, value in asked.items() if value}


def _time(value: Any) -> datetime | None:
    return datetime.fromisoformat(str(value).replace("Z", "+00:00")) if value else None


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = _scheduler(call, planned), name_of(planned)
    try:
        retry(call.api, PROPAGATION, lambda: send("CreateSchedule", Name=name, **_asked(planned)), _LATE_ROLE)
    except AwsError as error:
        raise ProviderError(f"creating EventBridge Scheduler Schedule ({name}): {error}") from error
    identifier = f"{planned.get('groupName') or _DEFAULT_GROUP}/{name}"
    told = _read(call, identifier, planned)
    if told is None:
        raise Incomplete(identifier, {}, f"reading EventBridge Scheduler Schedule ({identifier}): couldn't find resource")
    return identifier, told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    group, _, name = identifier.partition("/")
    try:
        there = _scheduler(call, before)("GetSchedule", GroupName=group, Name=name)
    except AwsError as error:
        if error.says(_GONE):
            return None
        raise ProviderError(f"reading EventBridge Scheduler Schedule ({identifier}): {error}") from error
    window, target = there["FlexibleTimeWindow"], there["Target"]
    policy = target.get("RetryPolicy") or {}
    return {
        "actionAfterCompletion": there.get("ActionAfterCompletion") or "NONE",
        "arn": there["Arn"],
        "description": there.get("Description") or "",
        "endDate": _told_time(there.get("EndDate")),
        "flexibleTimeWindow": {
            "maximumWindowInMinutes": window.get("MaximumWindowInMinutes", 0),
            "mode": window["Mode"],
        },
        "groupName": there.get("GroupName", group),
        **told_name(name, before),
        "region": region_of(call, before),
        "scheduleExpression": there["ScheduleExpression"],
        "scheduleExpressionTimezone": there.get("ScheduleExpressionTimezone", "UTC"),
        "startDate": _told_time(there.get("StartDate")),
        "state": there.get("State", "ENABLED"),
        "target": {
            "arn": target["Arn"],
            "input": target.get("Input", ""),
            "retryPolicy": {
                "maximumEventAgeInSeconds": policy.get("MaximumEventAgeInSeconds", 86400),
                "maximumRetryAttempts": policy.get("MaximumRetryAttempts", 185),
            },
            "roleArn": target["RoleArn"],
        },
    }


def _told_time(value: Any) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(value, "strftime") else ""


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = _scheduler(call, change.state)
    name = identifier.partition("/")[2]
    try:
        retry(call.api, PROPAGATION, lambda: send("UpdateSchedule", Name=name, **_asked(change.planned)), _LATE_ROLE)
    except AwsError as error:
        raise ProviderError(f"updating EventBridge Scheduler Schedule ({identifier}): {error}") from error
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    group, _, name = identifier.partition("/")
    try:
        _scheduler(call, state)("DeleteSchedule", GroupName=group, Name=name)
    except AwsError as error:
        if not error.says(_GONE):
            raise ProviderError(f"deleting EventBridge Scheduler Schedule ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:scheduler/schedule:Schedule",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=frozenset(
            {
                "actionAfterCompletion",
                "description",
                "endDate",
                "flexibleTimeWindow",
                "scheduleExpression",
                "scheduleExpressionTimezone",
                "startDate",
                "state",
                "target",
            }
        ),
        delete=_delete,
    )
]
