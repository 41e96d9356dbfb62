"""`budgets.Budget`. Its id is ACCOUNT:NAME. Budgets is one service for all regions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.names import NAMED, name_of, told_name
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_changes, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, blocks, items, members, out, text, unsent
from rehearsal.providers.values import Values

GONE: Final = "NotFoundException"
FOREVER: Final = "2087-06-15_00:00"

_NOTICE: Final[Fields] = {
    "comparisonOperator": text(required=True),
    "notificationType": text(required=True),
    "subscriberEmailAddresses": members(),
    "subscriberSnsTopicArns": members(),
    "threshold": Prop(zero=0, required=True),
    "thresholdType": text(required=True),
}


def _same_amount(one: str, other: str) -> bool:
    """Whether two amounts are one: 30 and 30.0."""
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


FIELDS: Final[Fields] = {
    "accountId": text(computed=True, replace=True),
    "arn": out(),
    "autoAdjustData": unsent(Prop()),
    "billingViewArn": unsent(text(computed=True)),
    "budgetType": text(required=True),
    "costFilters": blocks({"name": text(required=True), "values": items(required=True)}, computed=True, unordered=True),
    "costTypes": unsent(Prop(computed=True)),
    "filterExpression": unsent(Prop()),
    "limitAmount": text(computed=True, same=_same_amount),
    "limitUnit": text(computed=True),
    "metrics": unsent(items()),
    **NAMED,
    "notifications": blocks(_NOTICE, unordered=True),
    "plannedLimits": unsent(Prop()),
    **TAGS,
    "timePeriodEnd": text(default=FOREVER),
    "timePeriodStart": text(computed=True),
    "timeUnit": text(required=True),
}


def _budgets(call: Call[Aws]) -> Send:
    return call.api.service("budgets", "us-east-1")


def _budget(planned: Mapping[str, Any], name: str) -> Values:
    made: Values = {
        "BudgetName": name,
        "BudgetType": planned["budgetType"],
        "TimeUnit": planned["timeUnit"],
        "BudgetLimit": {"Amount": str(planned.get("limitAmount") or "0"), "Unit": str(planned.get("limitUnit") or "USD")},
        "TimePeriod": {"End": _time(planned.get("timePeriodEnd") or FOREVER)},
    }
    if planned.get("timePeriodStart"):
        made["TimePeriod"]["Start"] = _time(planned["timePeriodStart"])
    filters = planned.get("costFilters") or []
    if filters:
        made["CostFilters"] = {item["name"]: list(item["values"]) for item in filters}
    return made


def _time(text_: Any) -> datetime:
    return datetime.strptime(str(text_), "%Y-%m-%d_%H:%M").replace(tzinfo=UTC)


def _told_time(value: Any) -> str:
    return value.strftime("%Y-%m-%d_%H:%M") if hasattr(value, "strftime") else ""


def _notice(item: Mapping[str, Any]) -> Values:
    mails = [{"SubscriptionType": "EMAIL", "Address": mail} for mail in item.get("subscriberEmailAddresses") or []]
    topics = [{"SubscriptionType": "SNS", "Address": arn} for arn in item.get("subscriberSnsTopicArns") or []]
    return {
        "Notification": {
            "ComparisonOperator": item["comparisonOperator"],
            "NotificationType": item["notificationType"],
            "Threshold": float(item["threshold"]),
            "ThresholdType": item["thresholdType"],
        },
        "Subscribers": [*mails, *topics],
    }


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name, account = _budgets(call), name_of(planned), str(planned.get("accountId") or call.api.account)
    tags = {"ResourceTags": tag} if (tag := tag_list(planned.get("tagsAll"))) else {}
    try:
        send("CreateBudget", AccountId=account, Budget=_budget(planned, name), **tags)
    except AwsError as error:
        raise ProviderError(f"creating Budget ({name}): {error}") from error
    identifier = f"{account}:{name}"
    for item in planned.get("notifications") or []:
        try:
            send("CreateNotification", AccountId=account, BudgetName=name, **_notice(item))
        except AwsError as error:
            raise Incomplete(identifier, {}, f"creating Budget ({name}) notifications: {error}") from error
    told = _read(call, identifier, planned)
    if told is None:
        raise Incomplete(identifier, {}, f"reading Budget ({identifier}): couldn't find resource")
    return identifier, told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send, (account, _, name) = _budgets(call), identifier.partition(":")
    who = {"AccountId": account, "BudgetName": name}
    try:
        there = send("DescribeBudget", **who)["Budget"]
    except AwsError as error:
        if error.says(GONE):
            return None
        raise
    arn = f"arn:aws:budgets::{account}:budget/{name}"
    limit, period = there.get("BudgetLimit") or {}, there.get("TimePeriod") or {}
    notices = send("DescribeNotificationsForBudget", **who).get("Notifications") or []
    return {
        "accountId": account,
        "arn": arn,
        "budgetType": there["BudgetType"],
        "costFilters": [{"name": key, "values": values} for key, values in sorted((there.get("CostFilters") or {}).items())],
        "limitAmount": limit.get("Amount", ""),
        "limitUnit": limit.get("Unit", ""),
        "notifications": [_told_notice(send, who, notice) for notice in notices],
        "timePeriodEnd": _told_time(period.get("End")),
        "timePeriodStart": _told_time(period.get("Start")),
        "timeUnit": there["TimeUnit"],
        **told_name(name, before),
        **told_tags(call.api, send("ListTagsForResource", ResourceARN=arn).get("ResourceTags"), before),
    }


def _told_notice(send: Send, who: Mapping[str, str], notice: Mapping[str, Any]) -> Values:
    known = {key: notice[key] for key in ("ComparisonOperator", "NotificationType", "Threshold", "ThresholdType") if key in notice}
    subscribers = send("DescribeSubscribersForNotification", **who, Notification=known).get("Subscribers") or []
    return {
        "comparisonOperator": notice["ComparisonOperator"],
        "notificationType": notice["NotificationType"],
        "subscriberEmailAddresses": [s["Address"] for s in subscribers if s["SubscriptionType"] == "EMAIL"] or None,
        "subscriberSnsTopicArns": [s["Address"] for s in subscribers if s["SubscriptionType"] == "SNS"] or None,
        "threshold": notice["Threshold"],
        "thresholdType": notice.get("ThresholdType", "PERCENTAGE"),
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send, (account, _, name) = _budgets(call), identifier.partition(":")
    who = {"AccountId": account, "BudgetName": name}
    if change.touches("budgetType", "costFilters", "limitAmount", "limitUnit", "timePeriodEnd", "timePeriodStart", "timeUnit"):
        try:
            send("UpdateBudget", AccountId=account, NewBudget=_budget(change.planned, name))
        except AwsError as error:
            raise ProviderError(f"updating Budget ({identifier}): {error}") from error
    if change.touches("notifications"):
        for item in change.state.get("notifications") or []:
            send("DeleteNotification", **who, Notification=_notice(item)["Notification"])
        for item in change.planned.get("notifications") or []:
            send("CreateNotification", **who, **_notice(item))
    if change.touches("tagsAll"):
        away, wanted = tag_changes(change)
        if away:
            send("UntagResource", ResourceARN=change.state["arn"], ResourceTagKeys=away)
        if wanted:
            send("TagResource", ResourceARN=change.state["arn"], ResourceTags=tag_list(wanted))
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    account, _, name = identifier.partition(":")
    try:
        _budgets(call)("DeleteBudget", AccountId=account, BudgetName=name)
    except AwsError as error:
        if not error.says(GONE):
            raise ProviderError(f"deleting Budget ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:budgets/budget:Budget",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS
        | {
            "budgetType",
            "costFilters",
            "limitAmount",
            "limitUnit",
            "notifications",
            "timePeriodEnd",
            "timePeriodStart",
            "timeUnit",
        },
        delete=_delete,
        check=add_default_tags,
        customize=plan_tags,
    )
]
