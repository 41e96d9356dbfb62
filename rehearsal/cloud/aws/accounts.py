"""Who one is (STS), how much one may have (Service Quotas), and what a role may (IAM)."""

from __future__ import annotations

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.inventory import Quota
from rehearsal.cloud.aws.state import State


def caller_identity(state: State, call: Call) -> Result:
    """GetCallerIdentity."""
    return {"UserId": call.caller.user_id, "Account": state.account, "Arn": call.caller.arn}


def simulate(state: State, call: Call) -> Result:
    """SimulatePrincipalPolicy of a role: as its own requests are decided."""
    arn = str(call.params["PolicySourceArn"])
    role = state.roles.role(arn.rpartition("/")[2])
    if role is None:
        raise AwsError("NoSuchEntity", f"Role with ARN {arn} cannot be found.", 404)
    asked = [(action, resource) for action in call.params["ActionNames"] for resource in call.params.get("ResourceArns") or ["*"]]
    decided = [(action, resource, state.may(role, action, resource)) for action, resource in asked]
    return {
        "EvaluationResults": [
            {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": "allowed" if fine else "implicitDeny"}
            for action, resource, fine in decided
        ],
        "IsTruncated": False,
    }


def _quota(state: State, quota: Quota, value: float) -> Json:
    return {
        "ServiceCode": quota.service,
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": state.arn("servicequotas", f"{quota.service}/{quota.code}"),
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def quota(state: State, call: Call) -> Result:
    """GetServiceQuota: what the account has."""
    found = _find(state, call.params)
    return {"Quota": _quota(state, found, state.quotas[found.code])}


def default_quota(state: State, call: Call) -> Result:
    """GetAWSDefaultServiceQuota: what a new account has."""
    found = _find(state, call.params)
    return {"Quota": _quota(state, found, 0.0)}


def quotas(state: State, call: Call) -> Result:
    """ListServiceQuotas."""
    service = call.params["ServiceCode"]
    return {"Quotas": [_quota(state, q, state.quotas[q.code]) for q in state.inventory.quotas if q.service == service]}


def _find(state: State, params: Json) -> Quota:
    for found in state.inventory.quotas:
        if (found.service, found.code) == (params["ServiceCode"], params["QuotaCode"]):
            return found
    raise AwsError("NoSuchResourceException", "The request failed because the specified service quota does not exist.")
