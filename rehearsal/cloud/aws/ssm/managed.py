"""Which instances Systems Manager knows, sessions with them, and Amazon's public parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.ec2 import bodies
from rehearsal.cloud.aws.errors import AwsError, NotModelled
from rehearsal.cloud.aws.inventory import Image
from rehearsal.cloud.aws.state import SessionService, StartSession, State

PUBLIC = "/aws/service/"
DOCUMENTS = (
    "AWS-StartPortForwardingSession",
    "AWS-StartPortForwardingSessionToRemoteHost",
    "SSM-SessionManagerRunShell",
    "AWS-StartInteractiveCommand",
)
AGENT_VERSION = "3.3.3050.0"


def information(state: State, call: Call) -> Result:
    """DescribeInstanceInformation: instances whose agent is online."""
    rows = []
    for instance_id in state.agents.online():
        instance = bodies.find(state, instance_id)
        if instance is None or instance.state != "running":
            continue
        row = {
            "InstanceId": instance_id,
            "PingStatus": "Online",
            "LastPingDateTime": state.now(),
            "AgentVersion": AGENT_VERSION,
            "IsLatestVersion": True,
            "PlatformType": "Linux",
            "PlatformName": "Ubuntu",
            "PlatformVersion": "24.04",
            "ResourceType": "EC2Instance",
            "IPAddress": instance.private_ip_address,
            "ComputerName": instance.private_dns_name,
        }
        if all(_fits(row, bodies.tags(instance), name, values) for name, values in _conditions(call)):
            rows.append(row)
    return {"InstanceInformationList": rows}


def _conditions(call: Call) -> list[tuple[str, Sequence[str]]]:
    old = [(c["key"], c["valueSet"]) for c in call.params.get("InstanceInformationFilterList") or []]
    return old + [(c["Key"], c["Values"]) for c in call.params.get("Filters") or []]


def _fits(row: Json, tags: dict[str, str], name: str, values: Sequence[str]) -> bool:
    if name.startswith("tag:"):
        return tags.get(name[4:]) in values
    fields = {
        "InstanceIds": "InstanceId",
        "PingStatus": "PingStatus",
        "PlatformTypes": "PlatformType",
        "ResourceType": "ResourceType",
    }
    if name not in fields:
        raise NotModelled(f"the filter {name} of DescribeInstanceInformation")
    return row[fields[name]] in values


def connection(state: State, call: Call) -> Result:
    """GetConnectionStatus."""
    target = call.params["Target"]
    return {"Target": target, "Status": "connected" if target in state.agents.online() else "notconnected"}


def start_session(state: State, call: Call) -> Result:
    """StartSession: the data channel is whoever was set to serve it."""
    params = call.params
    target, document = params["Target"], params.get("DocumentName", "SSM-SessionManagerRunShell")
    if document not in DOCUMENTS:
        raise AwsError("InvalidDocument", f"Document with name {document} does not exist.")
    if target not in state.agents.online():
        raise AwsError("TargetNotConnected", f"{target} is not connected.")
    answer = _served(state, call)
    row = {"SessionId": answer["SessionId"], "Target": target, "Status": "Connected", "StartDate": state.now()}
    state.sessions[answer["SessionId"]] = {**row, "DocumentName": document, "Owner": call.caller.arn}
    return answer


def resume_session(state: State, call: Call) -> Result:
    """ResumeSession: the stream again, as whoever serves it says."""
    if call.params["SessionId"] not in state.sessions:
        raise AwsError("DoesNotExistException", f"Session {call.params['SessionId']} does not exist.")
    return _served(state, call)


def end_session(state: State, call: Call) -> Result:
    """TerminateSession: ended already is no error."""
    found = state.sessions.get(call.params["SessionId"])
    if found is not None and found["Status"] == "Connected":
        found.update(Status="Terminated", EndDate=state.now())
        _served(state, call)
    return {"SessionId": call.params["SessionId"]}


def _served(state: State, call: Call) -> Json:
    if state.session_service is None:
        raise NotModelled("a data channel for sessions, unless one is set")
    try:
        return dict(state.session_service(call.operation, call.params))
    except Exception as refusal:  # its text is the error's name, by contract
        name = str(refusal)
        if not name.isidentifier():
            raise
        raise AwsError(name, "") from None


def starting(start: StartSession) -> SessionService:
    """A service for sessions that can only be started: a resumed one has the same stream and token again."""
    kept: dict[str, Json] = {}

    def service(operation: str, params: Json) -> Json:
        if operation == "StartSession":
            session, url, token = start(params["Target"], params.get("DocumentName", ""), params.get("Parameters") or {})
            kept[session] = {"SessionId": session, "StreamUrl": url, "TokenValue": token}
            return kept[session]
        return kept[params["SessionId"]] if operation == "ResumeSession" else {"SessionId": params["SessionId"]}

    return service


def sessions(state: State, call: Call) -> Result:
    """DescribeSessions, active ones or the history."""
    active = call.params["State"] == "Active"
    found = [s for s in state.sessions.values() if (s["Status"] == "Connected") == active]
    return {"Sessions": found}


def public(state: State, name: str) -> Image | None:
    """The image that a public parameter names: the newest published of its line. None for no such parameter."""
    if name in state.renamed:
        return state.image(state.renamed[name])
    line = [i for i in state.inventory.images if i.parameter == name and i.id in state.published]
    return max(line, key=lambda i: i.name) if line else None


def _parameter(state: State, name: str, image: Image) -> Json:
    line = sorted((i for i in state.inventory.images if i.parameter == name and i.id in state.published), key=lambda i: i.name)
    return {
        "Name": name,
        "Type": "String",
        "Value": image.id,
        "Version": len(line),
        "LastModifiedDate": state.now(),
        "ARN": f"arn:aws:ssm:{state.region}::parameter{name}",
        "DataType": "aws:ec2:image",
    }


def parameter(state: State, call: Call) -> Result:
    """GetParameter: Amazon's own, else the account's from moto."""
    name = call.params["Name"].removeprefix(f"arn:aws:ssm:{state.region}::parameter")
    if not name.startswith(PUBLIC):
        return call.moto(None)
    image = public(state, name)
    if image is None:
        raise AwsError("ParameterNotFound", "")
    return {"Parameter": _parameter(state, name, image)}


def parameters(state: State, call: Call) -> Result:
    """GetParameters: those of Amazon's that there are, and the account's from moto."""
    names = call.params["Names"]
    ours = {n: public(state, n) for n in names if n.startswith(PUBLIC)}
    rest = [n for n in names if n not in ours]
    answer: Any = call.moto({**call.params, "Names": rest}).parsed if rest else {"Parameters": [], "InvalidParameters": []}
    found = [_parameter(state, n, image) for n, image in ours.items() if image is not None]
    missing = [n for n, image in ours.items() if image is None]
    return {"Parameters": [*answer["Parameters"], *found], "InvalidParameters": [*answer["InvalidParameters"], *missing]}


def by_path(state: State, call: Call) -> Result:
    """GetParametersByPath."""
    path = call.params["Path"].rstrip("/") + "/"
    if not path.startswith(PUBLIC):
        return call.moto(None)
    names = dict.fromkeys(i.parameter for i in state.inventory.images if i.parameter.startswith(path) and i.id in state.published)
    if not call.params.get("Recursive"):
        names = dict.fromkeys(n for n in names if "/" not in n.removeprefix(path))
    found = {n: public(state, n) for n in names}
    return {"Parameters": [_parameter(state, n, image) for n, image in found.items() if image is not None]}
