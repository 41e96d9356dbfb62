"""`ssm.Association`: a document that Systems Manager runs on the machines it names, at once and after every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_changes, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, block, blocks, flag, items, mapping, members, number, out, text, unsent
from rehearsal.providers.values import Values
from rehearsal.providers.waits import TimedOutWaiting, UnexpectedState, Waiter

_GONE: Final = "AssociationDoesNotExist"
_TEXTS: Final = {
    "associationName": "AssociationName",
    "automationTargetParameterName": "AutomationTargetParameterName",
    "complianceSeverity": "ComplianceSeverity",
    "documentVersion": "DocumentVersion",
    "maxConcurrency": "MaxConcurrency",
    "maxErrors": "MaxErrors",
    "scheduleExpression": "ScheduleExpression",
    "syncCompliance": "SyncCompliance",
}

FIELDS: Final[Fields] = {
    "applyOnlyAtCronInterval": flag(default=False),
    "arn": out(),
    "associationId": out(),
    **{key: text() for key in _TEXTS if key != "documentVersion"},
    "calendarNames": unsent(members()),
    "documentVersion": text(computed=True),
    "name": text(autoname=True, replace=True),
    "outputLocation": block({"s3BucketName": text(required=True), "s3KeyPrefix": text(), "s3Region": text()}),
    "parameters": mapping(computed=True),
    **REGION,
    **TAGS,
    "targets": blocks({"key": text(required=True), "values": items(required=True)}, computed=True),
    "waitForSuccessTimeoutSeconds": number(None),
}


def _ssm(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    return call.api.service("ssm", values.get("region"))


def _asked(planned: Mapping[str, Any]) -> Values:
    """All of it, as create and update send it: an update makes a new version of the whole."""
    place = planned.get("outputLocation") or {}
    names = {"s3BucketName": "OutputS3BucketName", "s3KeyPrefix": "OutputS3KeyPrefix", "s3Region": "OutputS3Region"}
    location = {name: place[key] for key, name in names.items() if place.get(key)}
    asked: Values = {
        **{name: planned.get(key) for key, name in _TEXTS.items()},
        "ApplyOnlyAtCronInterval": planned.get("applyOnlyAtCronInterval") or None,
        "OutputLocation": {"S3Location": location} if location else None,
        "Parameters": {key: [value] for key, value in (planned.get("parameters") or {}).items()},
        "Targets": [{"Key": target["key"], "Values": target["values"]} for target in planned.get("targets") or []],
    }
    return {key: value for key, value in asked.items() if value}


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = _ssm(call, planned)
    tags = tag_list(planned.get("tagsAll"))
    try:
        made = send("CreateAssociation", Name=planned["name"], **_asked(planned), **({"Tags": tags} if tags else {}))
    except AwsError as error:
        raise ProviderError(f"creating SSM Association ({planned['name']}): {error}") from error
    identifier = str(made["AssociationDescription"]["AssociationId"])
    if planned.get("waitForSuccessTimeoutSeconds"):
        _await_success(call, send, identifier, float(planned["waitForSuccessTimeoutSeconds"]))
    told = _read(call, identifier, planned)
    if told is None:
        raise Incomplete(identifier, {}, f"reading SSM Association ({identifier}): couldn't find resource")
    return identifier, told


def _await_success(call: Call[Aws], send: Send, identifier: str, seconds: float) -> None:
    def look() -> tuple[Values | None, str]:
        there = _description(send, identifier)
        return there, str(((there or {}).get("Overview") or {}).get("Status", ""))

    try:
        Waiter("Success", seconds, pending=frozenset({"Pending", ""})).wait(look, call.api.sleep)
    except (TimedOutWaiting, UnexpectedState) as error:
        raise Incomplete(identifier, {}, f"waiting for SSM Association ({identifier}) create: {error}") from error


def _description(send: Send, identifier: str) -> Values | None:
    try:
        answer: Values = send("DescribeAssociation", AssociationId=identifier)["AssociationDescription"]
        return answer
    except AwsError as error:
        if error.says(_GONE):
            return None
        raise


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = _ssm(call, before)
    there = _description(send, identifier)
    if there is None:
        return None
    location = (there.get("OutputLocation") or {}).get("S3Location")
    tags = send("ListTagsForResource", ResourceType="Association", ResourceId=identifier).get("TagList")
    return {
        **{key: there.get(name) or "" for key, name in _TEXTS.items()},
        "applyOnlyAtCronInterval": bool(there.get("ApplyOnlyAtCronInterval")),
        "arn": call.api.arn("ssm", f"association/{identifier}", region_of(call, before)),
        "associationId": identifier,
        "name": there["Name"],
        "outputLocation": {
            "s3BucketName": location.get("OutputS3BucketName", ""),
            "s3KeyPrefix": location.get("OutputS3KeyPrefix", ""),
            "s3Region": location.get("OutputS3Region", ""),
        }
        if location
        else None,
        "parameters": {key: values[0] for key, values in (there.get("Parameters") or {}).items()} or None,
        "region": region_of(call, before),
        **told_tags(call.api, tags, before),
        "targets": [{"key": target["Key"], "values": target["Values"]} for target in there.get("Targets") or []],
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = _ssm(call, change.state)
    if change.touches(*(key for key in FIELDS if key not in ("tags", "tagsAll", "waitForSuccessTimeoutSeconds"))):
        try:
            send("UpdateAssociation", AssociationId=identifier, **_asked(change.planned))
        except AwsError as error:
            raise ProviderError(f"updating SSM Association ({identifier}): {error}") from error
    if change.touches("tagsAll"):
        gone, wanted = tag_changes(change)
        thing = {"ResourceType": "Association", "ResourceId": identifier}
        if gone:
            send("RemoveTagsFromResource", TagKeys=gone, **thing)
        if wanted:
            send("AddTagsToResource", Tags=tag_list(wanted), **thing)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        _ssm(call, state)("DeleteAssociation", AssociationId=identifier)
    except AwsError as error:
        if not error.says(_GONE):
            raise ProviderError(f"deleting SSM Association ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:ssm/association:Association",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS
        | frozenset(_TEXTS)
        | {"applyOnlyAtCronInterval", "outputLocation", "parameters", "targets", "waitForSuccessTimeoutSeconds"},
        delete=_delete,
        schema_version=1,
        check=add_default_tags,
        customize=plan_tags,
    )
]
