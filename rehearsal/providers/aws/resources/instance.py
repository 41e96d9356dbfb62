"""`ec2.Instance`: the order of its requests, its waits, and the weaknesses that the official provider has with it.

A lack of capacity is tried again for as long as `aws:maxRetries` allows, whatever the create timeout says. An instance
that fails after it was made stays in the state, not initialised. New user data stops and starts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers import diff as differ
from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.ec2 import after_create, creating, ec2
from rehearsal.providers.aws.resources.instance_request import run_request
from rehearsal.providers.aws.resources.instance_table import CHANGED_IN_PLACE, FIELDS
from rehearsal.providers.aws.resources.instance_told import find, read, root_mapping, state_of
from rehearsal.providers.aws.resources.instance_update import update
from rehearsal.providers.aws.resources.instance_wait import DELAY, FLOOR, IAM_PROPAGATION, LATE_IAM, await_state, modify
from rehearsal.providers.aws.tags import (
    TAG_MAPS,
    add_default_tags,
    plan_tags,
    tag_list,
)
from rehearsal.providers.resource import Call, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.values import UNKNOWN, Values
from rehearsal.providers.waits import TimedOutWaiting, UnexpectedState, Waiter

_ALIVE: Final = frozenset({"pending", "running", "shutting-down", "stopping", "stopped"})


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send = ec2(call, planned)
    request = run_request(send, planned)
    made = creating("EC2 Instance", lambda: retry(call.api, IAM_PROPAGATION, lambda: send("RunInstances", **request), *LATE_IAM))
    identifier = str(made["Instances"][0]["InstanceId"])
    try:
        await_state(call, send, identifier, Waiter("running", call.timeout, DELAY, FLOOR, pending=frozenset({"pending"})))
        _finish(call, send, identifier, planned)
        return identifier, after_create("EC2 Instance", identifier, read(call, identifier, planned))
    except ProviderError as error:
        raise Incomplete(identifier, _last_words(call, identifier, planned), str(error)) from error


def _last_words(call: Call[Aws], identifier: str, planned: Mapping[str, Any]) -> Values:
    """What can still be told of an instance whose create failed."""
    try:
        return read(call, identifier, planned) or {"instanceState": "terminated"}
    except AwsError:
        return {}


def _finish(call: Call[Aws], send: Send, identifier: str, planned: Mapping[str, Any]) -> None:
    """What the official provider still asks for once the instance runs."""
    tags = (planned.get("rootBlockDevice") or {}).get("tagsAll")
    root = root_mapping(find(send, identifier) or {})
    if tags and root is not None:
        send("CreateTags", Resources=[root["Ebs"]["VolumeId"]], Tags=tag_list(tags))
    if planned.get("sourceDestCheck") is False:
        modify(send, identifier, SourceDestCheck={"Value": False})
    if planned.get("instanceInitiatedShutdownBehavior"):
        behaviour = {"Value": planned["instanceInitiatedShutdownBehavior"]}
        modify(send, identifier, InstanceInitiatedShutdownBehavior=behaviour)
    if planned.get("monitoring"):
        send("MonitorInstances", InstanceIds=[identifier])


# Delete


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    if state.get("forceDestroy"):
        for key, name in (("disableApiTermination", "DisableApiTermination"), ("disableApiStop", "DisableApiStop")):
            if state.get(key):
                modify(send, identifier, **{name: {"Value": False}})
    if state.get("instanceLifecycle") == "spot" and state.get("spotInstanceRequestId"):
        _cancel(send, str(state["spotInstanceRequestId"]))
    try:
        send("TerminateInstances", InstanceIds=[identifier])
    except AwsError as error:
        if error.says("InvalidInstanceID.NotFound"):
            return
        raise ProviderError(f"terminating EC2 Instance ({identifier}): {error}") from error

    def look() -> tuple[Values | None, str]:
        instance = find(send, identifier)
        return instance, state_of(instance)

    try:
        Waiter("terminated", call.timeout, DELAY, FLOOR, pending=_ALIVE).until_gone(look, call.api.sleep)
    except (TimedOutWaiting, UnexpectedState) as error:
        raise ProviderError(f"waiting for EC2 Instance ({identifier}) delete: {error}") from error


def _cancel(send: Send, request: str) -> None:
    try:
        send("CancelSpotInstanceRequests", SpotInstanceRequestIds=[request])
    except AwsError as error:
        raise ProviderError(f"cancelling EC2 Spot Fleet Request ({request}): {error}") from error


# Plan


def _customize(api: Aws, state: Mapping[str, Any] | None, planned: Values) -> Values:
    """Tags, on the root volume too; a change of the user data that replaces is known only here."""
    planned = plan_tags(api, state, planned)
    root = planned.get("rootBlockDevice")
    if isinstance(root, Mapping):
        before = (state or {}).get("rootBlockDevice") if state else None
        planned = planned | {"rootBlockDevice": plan_tags(api, before, dict(root))}
    if isinstance(planned.get("userData"), str) and planned["userData"]:
        planned = planned | {"userDataBase64": (state or {}).get("userDataBase64") or ""}
    return planned


def _extra(api: Aws, state: Mapping[str, Any], planned: Mapping[str, Any], changes: differ.Changes) -> differ.Changes:
    """New user data replaces only where the program says so; another size only where the architecture is another."""
    data = [key for key in ("userData", "userDataBase64") if key in changes]
    if data and planned.get("userDataReplaceOnChange"):
        changes = changes | {key: changes[key].replacing() for key in data}
    if "instanceType" in changes and not _same_architecture(api, state.get("instanceType"), planned.get("instanceType")):
        changes = changes | {"instanceType": changes["instanceType"].replacing()}
    return changes


def _same_architecture(api: Aws, old: Any, new: Any) -> bool:
    """Whether the two sizes can run one image. Unknown sizes are left to the request."""
    if not old or not new or new is UNKNOWN:
        return True
    try:
        kinds = api.service("ec2")("DescribeInstanceTypes", InstanceTypes=[old, new])["InstanceTypes"]
    except AwsError:
        return True
    sets = [set((kind.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()) for kind in kinds]
    return len(sets) < 2 or bool(sets[0] & sets[1])


RESOURCES: Final = [
    Resource(
        token="aws:ec2/instance:Instance",
        fields=FIELDS,
        create=_create,
        read=read,
        update=update,
        updates=TAG_MAPS | CHANGED_IN_PLACE,
        delete=_delete,
        timeouts={"create": 600.0, "read": 900.0, "update": 600.0, "delete": 1200.0},
        schema_version=2,
        import_state=at_import(forceDestroy=False, userDataReplaceOnChange=False, getPasswordData=False),
        check=add_default_tags,
        customize=_customize,
        extra=_extra,
    )
]
