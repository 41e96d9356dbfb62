"""`cloudwatch.LogGroup`. Its id is its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import NAMED, name_of, told_name
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_changes, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.schema import Fields, flag, number, out, text, unsent
from rehearsal.providers.values import Values

FIELDS: Final[Fields] = {
    "arn": out(),
    "deletionProtectionEnabled": unsent(flag(computed=True)),
    "kmsKeyId": unsent(text()),
    "logGroupClass": text(computed=True, replace=True),
    **NAMED,
    **REGION,
    "retentionInDays": number(default=0),
    "skipDestroy": flag(default=False),
    **TAGS,
}


def _logs(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    return call.api.service("logs", values.get("region"))


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = _logs(call, planned), name_of(planned)
    asked: Values = {"logGroupClass": planned.get("logGroupClass"), "tags": planned.get("tagsAll")}
    try:
        send("CreateLogGroup", logGroupName=name, **{key: value for key, value in asked.items() if value})
    except AwsError as error:
        raise ProviderError(f"creating CloudWatch Logs Log Group ({name}): {error}") from error
    if planned.get("retentionInDays"):
        try:
            send("PutRetentionPolicy", logGroupName=name, retentionInDays=int(planned["retentionInDays"]))
        except AwsError as error:
            why = f"setting CloudWatch Logs Log Group ({name}) retention policy: {error}"
            raise Incomplete(name, {}, why) from error
    told = _read(call, name, planned)
    if told is None:
        raise Incomplete(name, {}, f"reading CloudWatch Logs Log Group ({name}): couldn't find resource")
    return name, told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = _logs(call, before)
    groups = send("DescribeLogGroups", logGroupNamePrefix=identifier)["logGroups"]
    there = next((group for group in groups if group["logGroupName"] == identifier), None)
    if there is None:
        return None
    arn = str(there["arn"]).removesuffix(":*")
    there_tags = send("ListTagsForResource", resourceArn=arn)["tags"]
    return {
        "arn": arn,
        "deletionProtectionEnabled": bool(there.get("deletionProtectionEnabled")),
        "logGroupClass": there.get("logGroupClass", "STANDARD"),
        "region": region_of(call, before),
        "retentionInDays": there.get("retentionInDays", 0),
        **told_name(identifier, before),
        **told_tags(call.api, [{"Key": k, "Value": v} for k, v in there_tags.items()], before),
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send, planned = _logs(call, change.state), change.planned
    if change.touches("retentionInDays"):
        if planned.get("retentionInDays"):
            send("PutRetentionPolicy", logGroupName=identifier, retentionInDays=int(planned["retentionInDays"]))
        else:
            send("DeleteRetentionPolicy", logGroupName=identifier)
    if change.touches("tagsAll"):
        away, wanted = tag_changes(change)
        if away:
            send("UntagResource", resourceArn=change.state["arn"], tagKeys=away)
        if wanted:
            send("TagResource", resourceArn=change.state["arn"], tags=wanted)
    return _read(call, identifier, planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    if state.get("skipDestroy"):
        return
    try:
        _logs(call, state)("DeleteLogGroup", logGroupName=identifier)
    except AwsError as error:
        if not error.says("ResourceNotFoundException"):
            raise ProviderError(f"deleting CloudWatch Logs Log Group ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:cloudwatch/logGroup:LogGroup",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS | {"retentionInDays", "skipDestroy"},
        delete=_delete,
        check=add_default_tags,
        customize=plan_tags,
        import_state=at_import(skipDestroy=False),
    )
]
