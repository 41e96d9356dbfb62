"""CloudWatch alarms and metric data, and Budgets: kept and shown. Nothing is measured here and no alarm ever goes off."""

from __future__ import annotations

from dataclasses import dataclass, field

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.state import State


@dataclass
class Watching:
    """Alarms and budgets by name."""

    alarms: dict[str, Json] = field(default_factory=dict)
    budgets: dict[str, Json] = field(default_factory=dict)
    notices: dict[str, list[Json]] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    """By ARN."""


def put_alarm(state: State, call: Call) -> Result:
    """PutMetricAlarm: made, or changed as a whole; tags count when it is made."""
    params, name = {k: v for k, v in call.params.items() if k != "Tags"}, call.params["AlarmName"]
    arn, new = state.arn("cloudwatch", f"alarm:{name}"), name not in state.watching.alarms
    state.watching.alarms[name] = {
        "ActionsEnabled": True,
        "OKActions": [],
        "AlarmActions": [],
        "InsufficientDataActions": [],
        "Dimensions": [],
        **params,
        "AlarmArn": arn,
        "AlarmConfigurationUpdatedTimestamp": state.now(),
        "StateValue": "INSUFFICIENT_DATA",
        "StateReason": "Unchecked: Initial alarm creation",
        "StateUpdatedTimestamp": state.now(),
    }
    if new:
        state.watching.tags[arn] = {t["Key"]: t["Value"] for t in call.params.get("Tags", [])}
    return None


def describe_alarms(state: State, call: Call) -> Result:
    """DescribeAlarms, by name or prefix."""
    names, prefix = call.params.get("AlarmNames"), call.params.get("AlarmNamePrefix", "")
    found = [a for n, a in sorted(state.watching.alarms.items()) if (names is None or n in names) and n.startswith(prefix)]
    return {"MetricAlarms": found, "CompositeAlarms": []}


def delete_alarms(state: State, call: Call) -> Result:
    """DeleteAlarms."""
    missing = [name for name in call.params["AlarmNames"] if name not in state.watching.alarms]
    if missing:
        raise AwsError("ResourceNotFound", f"Alarm {missing[0]} does not exist", 404)
    for name in call.params["AlarmNames"]:
        state.watching.tags.pop(state.watching.alarms.pop(name)["AlarmArn"], None)
    return None


def put_data(state: State, call: Call) -> Result:  # noqa: ARG001
    """PutMetricData: taken, and forgotten."""
    return None


def _tagged(state: State, arn: str) -> dict[str, str]:
    found = state.watching.tags.get(arn)
    if found is None:
        raise AwsError("ResourceNotFoundException", f"Unknown resource: {arn}", 404)
    return found


def tags(state: State, call: Call) -> Result:
    """ListTagsForResource."""
    found = _tagged(state, call.params.get("ResourceARN") or call.params["ResourceArn"])
    key = "ResourceTags" if call.service == "budgets" else "Tags"
    return {key: [{"Key": k, "Value": v} for k, v in sorted(found.items())]}


def tag(state: State, call: Call) -> Result:
    """TagResource."""
    given = call.params.get("ResourceTags") or call.params.get("Tags") or []
    _tagged(state, call.params.get("ResourceARN") or call.params["ResourceArn"]).update({t["Key"]: t["Value"] for t in given})
    return {}


def untag(state: State, call: Call) -> Result:
    """UntagResource."""
    found = _tagged(state, call.params.get("ResourceARN") or call.params["ResourceArn"])
    for key in call.params.get("ResourceTagKeys") or call.params.get("TagKeys") or []:
        found.pop(key, None)
    return {}


def create_budget(state: State, call: Call) -> Result:
    """CreateBudget, with its notifications."""
    budget = call.params["Budget"]
    name = budget["BudgetName"]
    if name in state.watching.budgets:
        raise AwsError("DuplicateRecordException", f"Error creating budget: {name} - the budget already exists.")
    state.watching.budgets[name] = {"CostTypes": dict(COST_TYPES), **budget, "LastUpdatedTime": state.now()}
    state.watching.notices[name] = [dict(n) for n in call.params.get("NotificationsWithSubscribers", [])]
    state.watching.tags[_budget_arn(state, name)] = {t["Key"]: t["Value"] for t in call.params.get("ResourceTags", [])}
    return {}


COST_TYPES = {
    "IncludeTax": True,
    "IncludeSubscription": True,
    "UseBlended": False,
    "IncludeRefund": True,
    "IncludeCredit": True,
    "IncludeUpfront": True,
    "IncludeRecurring": True,
    "IncludeOtherSubscription": True,
    "IncludeSupport": True,
    "IncludeDiscount": True,
    "UseAmortized": False,
}


def _budget_arn(state: State, name: str) -> str:
    return f"arn:aws:budgets::{state.account}:budget/{name}"


def _budget(state: State, call: Call, name: str = "") -> Json:
    found = state.watching.budgets.get(name or call.params["BudgetName"])
    if found is None:
        raise AwsError(
            "NotFoundException", f"Unable to get budget: {name or call.params['BudgetName']} - the budget doesn't exist."
        )
    return found


def update_budget(state: State, call: Call) -> Result:
    """UpdateBudget: the whole of it anew."""
    budget = call.params["NewBudget"]
    before = _budget(state, call, budget["BudgetName"])
    state.watching.budgets[budget["BudgetName"]] = {**before, **budget, "LastUpdatedTime": state.now()}
    return {}


def describe_budget(state: State, call: Call) -> Result:
    """DescribeBudget."""
    return {"Budget": _budget(state, call)}


def describe_budgets(state: State, call: Call) -> Result:  # noqa: ARG001
    """DescribeBudgets."""
    return {"Budgets": [b for _, b in sorted(state.watching.budgets.items())]}


def delete_budget(state: State, call: Call) -> Result:
    """DeleteBudget."""
    name = _budget(state, call)["BudgetName"]
    del state.watching.budgets[name]
    state.watching.notices.pop(name, None)
    state.watching.tags.pop(_budget_arn(state, name), None)
    return {}


def notices(state: State, call: Call) -> Result:
    """DescribeNotificationsForBudget."""
    _budget(state, call)
    return {"Notifications": [n["Notification"] for n in state.watching.notices[call.params["BudgetName"]]]}


def subscribers(state: State, call: Call) -> Result:
    """DescribeSubscribersForNotification."""
    _budget(state, call)
    for notice in state.watching.notices[call.params["BudgetName"]]:
        if notice["Notification"] == call.params["Notification"]:
            return {"Subscribers": notice["Subscribers"]}
    raise AwsError("NotFoundException", "Unable to get the notification: it doesn't exist.")


def add_notice(state: State, call: Call) -> Result:
    """CreateNotification."""
    _budget(state, call)
    made = {"Notification": call.params["Notification"], "Subscribers": call.params["Subscribers"]}
    state.watching.notices[call.params["BudgetName"]].append(made)
    return {}


def drop_notice(state: State, call: Call) -> Result:
    """DeleteNotification."""
    _budget(state, call)
    name = call.params["BudgetName"]
    kept = [n for n in state.watching.notices[name] if n["Notification"] != call.params["Notification"]]
    state.watching.notices[name] = kept
    return {}
