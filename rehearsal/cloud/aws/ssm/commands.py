"""Run Command: sent, then polled for. The API never waits for a machine."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.ec2 import bodies
from rehearsal.cloud.aws.errors import AwsError, NotModelled
from rehearsal.cloud.aws.ssm import shell
from rehearsal.cloud.aws.state import State
from rehearsal.contracts import Machine

ZERO = "1970-01-01T00:00:00Z"


def targets(state: State, targets: Sequence[Mapping[str, Any]], ids: Sequence[str] = ()) -> list[str]:
    """The running instances that are meant: by id, or by `InstanceIds` and `tag:NAME` targets (all of them must fit)."""
    if ids:
        return list(ids)
    found = {i.id: bodies.tags(i) for i in bodies.every(state) if i.state == "running"}
    for target in targets:
        name, values = target.get("Key", ""), target.get("Values") or []
        if name == "InstanceIds":
            found = {i: t for i, t in found.items() if i in values or "*" in values}
        elif name.startswith("tag:"):
            found = {i: t for i, t in found.items() if t.get(name[4:]) in values}
        else:
            raise NotModelled(f"targets by {name}")
    return sorted(found)


def send(state: State, call: Call) -> Result:
    """SendCommand. Raises InvalidInstanceId where the agent is not online."""
    params = call.params
    document, parameters = params["DocumentName"].rsplit("/", 1)[-1], params.get("Parameters") or {}
    shell.check(document, parameters)
    ids, online = targets(state, params.get("Targets") or [], params.get("InstanceIds") or []), state.agents.online()
    if params.get("InstanceIds") and any(i not in online for i in ids):
        raise AwsError(
            "InvalidInstanceId",
            "Instances [[" + ", ".join(i for i in ids if i not in online) + "]] not in a valid state for account " + state.account,
        )
    now, seconds = state.now(), int(params.get("TimeoutSeconds") or 3600)
    command: Json = {
        "CommandId": str(uuid.uuid4()),
        "DocumentName": document,
        "DocumentVersion": "$DEFAULT",
        "Comment": params.get("Comment", ""),
        "ExpiresAfter": now + timedelta(seconds=seconds),
        "Parameters": parameters,
        "InstanceIds": ids if params.get("InstanceIds") else [],
        "Targets": params.get("Targets") or [],
        "RequestedDateTime": now,
        "Status": "Pending",
        "StatusDetails": "Pending",
        "TargetCount": len(ids),
        "CompletedCount": 0,
        "ErrorCount": 0,
        "TimeoutSeconds": seconds,
    }
    state.commands[command["CommandId"]] = {"command": command, "invocations": {}}
    for instance_id in ids:
        if instance_id in online:
            _begin(state, command, instance_id)
    return {"Command": command}


def _begin(state: State, command: Json, instance_id: str) -> None:
    invocation: Json = {"Status": "Pending", "ResponseCode": -1, "Stdout": "", "Stderr": "", "Start": "", "End": "", "Elapsed": ""}
    state.commands[command["CommandId"]]["invocations"][instance_id] = invocation
    parameters = command["Parameters"]

    def job(machine: Machine) -> None:
        with state.lock:
            if invocation["Status"] != "Pending":  # cancelled
                return
            began = state.now()
            invocation.update(Status="InProgress", Start=began)
            command.update(Status="InProgress", StatusDetails="InProgress")
        ran = shell.run(machine, parameters)
        with state.lock:
            invocation.update(Status=ran.status, ResponseCode=ran.code, Stdout=ran.stdout, Stderr=ran.stderr, End=state.now())
            _ended(state, command)

    state.agents.give(instance_id, job)


def _ended(state: State, command: Json) -> None:
    every = [i["Status"] for i in state.commands[command["CommandId"]]["invocations"].values()]
    command["CompletedCount"] = sum(s not in ("Pending", "InProgress") for s in every)
    command["ErrorCount"] = sum(s == "Failed" for s in every)
    if command["CompletedCount"] == len(every):
        worst = next((s for s in ("Failed", "TimedOut", "Cancelled") if s in every), "Success")
        command.update(Status=worst, StatusDetails=worst)


def machine_gone(state: State, instance_id: str) -> None:
    """What was not done yet on it never will be. Called under the lock."""
    for entry in state.commands.values():
        invocation = entry["invocations"].get(instance_id)
        if invocation is not None and invocation["Status"] in ("Pending", "InProgress"):
            invocation.update(Status="Undeliverable" if invocation["Status"] == "Pending" else "Failed")
            _ended(state, entry["command"])


def invocation(state: State, call: Call) -> Result:
    """GetCommandInvocation: at most 24,000 characters of output."""
    entry = state.commands.get(call.params["CommandId"])
    found = entry["invocations"].get(call.params["InstanceId"]) if entry else None
    if entry is None or found is None:
        raise AwsError(
            "InvocationDoesNotExist", "An error occurred (InvocationDoesNotExist) when calling the GetCommandInvocation operation: "
        )
    command, start, end = entry["command"], found["Start"], found["End"]
    return {
        "CommandId": command["CommandId"],
        "InstanceId": call.params["InstanceId"],
        "Comment": command["Comment"],
        "DocumentName": command["DocumentName"],
        "DocumentVersion": "$DEFAULT",
        "PluginName": "aws:runShellScript",
        "ResponseCode": found["ResponseCode"],
        "ExecutionStartDateTime": _stamp(start),
        "ExecutionElapsedTime": f"PT{(end - start).total_seconds():.3f}S" if start and end else "",
        "ExecutionEndDateTime": _stamp(end),
        "Status": _api_status(found["Status"]),
        "StatusDetails": _details(found["Status"]),
        "StandardOutputContent": found["Stdout"],
        "StandardOutputUrl": "",
        "StandardErrorContent": found["Stderr"],
        "StandardErrorUrl": "",
        "CloudWatchOutputConfig": {"CloudWatchOutputEnabled": False},
    }


def _stamp(when: Any) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" if when else ""


def _api_status(status: str) -> str:
    return "Failed" if status == "Undeliverable" else status


def _details(status: str) -> str:
    return "ExecutionTimedOut" if status == "TimedOut" else status


def listed(state: State, call: Call) -> Result:
    """ListCommands, newest first."""
    wanted = call.params.get("CommandId")
    found = [e["command"] for k, e in state.commands.items() if wanted in (None, k)]
    return {"Commands": found[::-1]}


def invocations(state: State, call: Call) -> Result:
    """ListCommandInvocations; output of at most 2,500 characters with Details."""
    rows = []
    for command_id, entry in state.commands.items():
        for instance_id, found in entry["invocations"].items():
            if call.params.get("CommandId") in (None, command_id) and call.params.get("InstanceId") in (None, instance_id):
                row = {
                    "CommandId": command_id,
                    "InstanceId": instance_id,
                    "DocumentName": entry["command"]["DocumentName"],
                    "RequestedDateTime": entry["command"]["RequestedDateTime"],
                    "Status": _api_status(found["Status"]),
                    "StatusDetails": _details(found["Status"]),
                }
                if call.params.get("Details"):
                    plugin = {
                        "Name": "aws:runShellScript",
                        "Status": _api_status(found["Status"]),
                        "ResponseCode": found["ResponseCode"],
                    }
                    row["CommandPlugins"] = [{**plugin, "Output": found["Stdout"][:2500]}]
                rows.append(row)
    return {"CommandInvocations": rows[::-1]}


def cancel(state: State, call: Call) -> Result:
    """CancelCommand: what has not begun is not begun."""
    entry = state.commands.get(call.params["CommandId"])
    if entry is None:
        raise AwsError("InvalidCommandId", "")
    for invocation in entry["invocations"].values():
        if invocation["Status"] == "Pending":
            invocation["Status"] = "Cancelled"
    _ended(state, entry["command"])
    return {}
