"""State Manager: an association runs its document when it is made, when it changes, and on a machine that comes later."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError, NotModelled
from rehearsal.cloud.aws.ssm import commands, shell
from rehearsal.cloud.aws.state import State
from rehearsal.contracts import Machine

CHANGEABLE = ("Parameters", "Targets", "AssociationName", "DocumentVersion", "MaxConcurrency", "MaxErrors", "ComplianceSeverity")
UNUSED = ("ScheduleExpression", "OutputLocation", "CalendarNames", "TargetLocations", "AutomationTargetParameterName")


def create(state: State, call: Call) -> Result:
    """CreateAssociation: runs at once on every target whose agent is online."""
    params = call.params
    _check(params["Name"], params)
    now = state.now()
    given = {k: params[k] for k in CHANGEABLE if k in params}
    if params.get("InstanceId"):
        given["Targets"] = [{"Key": "InstanceIds", "Values": [params["InstanceId"]]}]
    if not given.get("Targets"):
        raise AwsError("InvalidTarget", "At least one target is required.")
    association: Json = {
        "Name": params["Name"],
        "AssociationId": str(uuid.uuid4()),
        "AssociationVersion": "1",
        "Date": now,
        "LastUpdateAssociationDate": now,
        "DocumentVersion": "$DEFAULT",
        "Overview": {"Status": "Pending", "DetailedStatus": "Creating"},
        "ApplyOnlyAtCronInterval": bool(params.get("ApplyOnlyAtCronInterval")),
        **given,
    }
    state.associations[association["AssociationId"]] = {
        "it": association,
        "executions": [],
        "done": set(),
        "tags": params.get("Tags") or [],
    }
    _run(state, association["AssociationId"])
    return {"AssociationDescription": association}


def update(state: State, call: Call) -> Result:
    """UpdateAssociation: a new version, which runs at once. What is not named is as it was (but for the name's own rule: kept)."""
    entry = _entry(state, call.params["AssociationId"])
    _check(call.params.get("Name", entry["it"]["Name"]), call.params)
    association = entry["it"]
    association.update({k: call.params[k] for k in CHANGEABLE if k in call.params})
    association["AssociationVersion"] = str(int(association["AssociationVersion"]) + 1)
    association["LastUpdateAssociationDate"] = state.now()
    association["Overview"] = {"Status": "Pending", "DetailedStatus": "Associated"}
    entry["done"] = set()
    _run(state, association["AssociationId"])
    return {"AssociationDescription": association}


def delete(state: State, call: Call) -> Result:
    """DeleteAssociation."""
    entry = _find(state, call.params)
    del state.associations[entry["it"]["AssociationId"]]
    return {}


def describe(state: State, call: Call) -> Result:
    """DescribeAssociation."""
    return {"AssociationDescription": _find(state, call.params)["it"]}


def listed(state: State, call: Call) -> Result:
    """ListAssociations."""
    rows = []
    for entry in state.associations.values():
        it = entry["it"]
        fields = {"Name": it["Name"], "AssociationId": it["AssociationId"], "AssociationName": it.get("AssociationName", "")}
        conditions = call.params.get("AssociationFilterList") or []
        if all(fields.get("AssociationId" if c["key"] == "AssociationId" else c["key"]) == c["value"] for c in conditions):
            keys = ("Name", "AssociationId", "AssociationVersion", "AssociationName", "Targets", "Overview", "LastExecutionDate")
            rows.append({k: it[k] for k in keys if k in it})
    return {"Associations": rows}


def executions(state: State, call: Call) -> Result:
    """DescribeAssociationExecutions, newest first."""
    return {"AssociationExecutions": [_execution(e) for e in _entry(state, call.params["AssociationId"])["executions"][::-1]]}


def execution_targets(state: State, call: Call) -> Result:
    """DescribeAssociationExecutionTargets."""
    entry = _entry(state, call.params["AssociationId"])
    found = [e for e in entry["executions"] if e["ExecutionId"] == call.params["ExecutionId"]]
    rows = []
    for execution in found:
        row = {k: execution[k] for k in ("AssociationId", "AssociationVersion", "ExecutionId", "Status", "DetailedStatus")}
        source = {"OutputSourceId": execution["CommandId"], "OutputSourceType": "RunCommand"}
        rows.append({**row, "ResourceId": execution["InstanceId"], "ResourceType": "ManagedInstance", "OutputSource": source})
    return {"AssociationExecutionTargets": rows}


def once(state: State, call: Call) -> Result:
    """StartAssociationsOnce: run them again."""
    for association_id in call.params["AssociationIds"]:
        _entry(state, association_id)["done"] = set()
        _run(state, association_id)
    return {}


def tag(state: State, call: Call) -> Result:
    """AddTagsToResource: an association's here, other resources' in moto."""
    if call.params["ResourceType"] != "Association":
        return call.moto(None)
    entry = _entry(state, call.params["ResourceId"])
    new = {t["Key"]: t for t in call.params["Tags"]}
    entry["tags"] = [t for t in entry["tags"] if t["Key"] not in new] + list(new.values())
    return {}


def untag(state: State, call: Call) -> Result:
    """RemoveTagsFromResource."""
    if call.params["ResourceType"] != "Association":
        return call.moto(None)
    entry = _entry(state, call.params["ResourceId"])
    entry["tags"] = [t for t in entry["tags"] if t["Key"] not in call.params["TagKeys"]]
    return {}


def tags(state: State, call: Call) -> Result:
    """ListTagsForResource."""
    if call.params["ResourceType"] != "Association":
        return call.moto(None)
    return {"TagList": _entry(state, call.params["ResourceId"])["tags"]}


def came_online(state: State) -> None:
    """Run on a machine what was meant for it before it was there. Called under the lock."""
    for association_id in list(state.associations):
        _run(state, association_id)


def _check(name: str, params: Mapping[str, Any]) -> None:
    if used := [k for k in UNUSED if params.get(k)]:
        raise NotModelled(f"{used[0]} of an association")
    if "Parameters" in params or name != shell.DOCUMENT:
        shell.check(name, params.get("Parameters") or {})


def _entry(state: State, association_id: str) -> Json:
    entry = state.associations.get(association_id)
    if entry is None:
        raise AwsError("AssociationDoesNotExist", f"The specified association {association_id} does not exist.")
    return entry


def _find(state: State, params: Mapping[str, Any]) -> Json:
    if params.get("AssociationId"):
        return _entry(state, params["AssociationId"])
    for entry in state.associations.values():
        targets = [v for t in entry["it"].get("Targets", []) for v in t.get("Values", [])]
        if entry["it"]["Name"] == params.get("Name") and params.get("InstanceId") in targets:
            return entry
    raise AwsError("AssociationDoesNotExist", "The specified association does not exist.")


def _run(state: State, association_id: str) -> None:
    """On every target that is online and has not had this version yet."""
    entry = state.associations[association_id]
    online = state.agents.online()
    for instance_id in commands.targets(state, entry["it"].get("Targets", [])):
        if instance_id in online and instance_id not in entry["done"]:
            entry["done"].add(instance_id)
            _begin(state, entry, instance_id)


def _begin(state: State, entry: Json, instance_id: str) -> None:
    association = entry["it"]
    version, parameters = association["AssociationVersion"], association.get("Parameters") or {}
    execution: Json = {
        "AssociationId": association["AssociationId"],
        "AssociationVersion": version,
        "ExecutionId": str(uuid.uuid4()),
        "CommandId": str(uuid.uuid4()),
        "InstanceId": instance_id,
        "Status": "Pending",
        "DetailedStatus": "Pending",
        "CreatedTime": state.now(),
    }
    entry["executions"].append(execution)

    def job(machine: Machine) -> None:
        with state.lock:
            execution.update(Status="InProgress", DetailedStatus="InProgress")
        ran = shell.run(machine, parameters)
        with state.lock:
            status = "Success" if ran.status == "Success" else "Failed"
            execution.update(Status=status, DetailedStatus=ran.status, LastExecutionDate=state.now())
            execution["Output"], execution["Error"] = ran.stdout, ran.stderr
            if association["AssociationVersion"] == version:
                association["Overview"] = {
                    "Status": status,
                    "DetailedStatus": ran.status,
                    "AssociationStatusAggregatedCount": {status: 1},
                }
                association["LastExecutionDate"] = state.now()
                if status == "Success":
                    association["LastSuccessfulExecutionDate"] = state.now()

    state.agents.give(instance_id, job)


def _execution(execution: Json) -> Json:
    keys = ("AssociationId", "AssociationVersion", "ExecutionId", "Status", "DetailedStatus", "CreatedTime", "LastExecutionDate")
    counted = {"ResourceCountByStatus": f"{{{execution['Status']}=1}}"}
    return {**{k: execution[k] for k in keys if k in execution}, **counted}
