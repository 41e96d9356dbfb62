"""Changes of an instance in place: one request a property, and a stop and a start for what needs them."""

from __future__ import annotations

import base64
from typing import Final

from rehearsal.providers import diff as differ
from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.ec2 import ec2, found
from rehearsal.providers.aws.resources.instance_request import metadata_request
from rehearsal.providers.aws.resources.instance_told import read
from rehearsal.providers.aws.resources.instance_wait import DELAY, FLOOR, IAM_PROPAGATION, LATE_IAM, await_state, modify
from rehearsal.providers.aws.tags import (
    update_ec2_tags,
)
from rehearsal.providers.resource import Call, Change, ProviderError
from rehearsal.providers.values import Values
from rehearsal.providers.waits import NeverSeen, TimedOutWaiting, UnexpectedState, Waiter

STOP_TIMEOUT: Final = 600.0
START_TIMEOUT: Final = 600.0


def update(call: Call[Aws], identifier: str, change: Change) -> Values:
    """Bring the changed properties into force, one after the other; what was done before an error stays done."""
    send = ec2(call, change.state)
    for step in (_profile, _simple_attributes, _groups, _stopped, _switches, _metadata, _volume):
        step(call, send, identifier, change)
    update_ec2_tags(send, identifier, change)
    return read(call, identifier, change.planned) or {}


def _profile(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    if not change.touches("iamInstanceProfile"):
        return
    filters = [{"Name": "instance-id", "Values": [identifier]}]
    there = found(send, "DescribeIamInstanceProfileAssociations", "IamInstanceProfileAssociations", Filters=filters)
    wanted = change.planned.get("iamInstanceProfile")
    profile = {"Name": wanted}
    if there is None and wanted:
        retry(
            call.api,
            IAM_PROPAGATION,
            lambda: send("AssociateIamInstanceProfile", InstanceId=identifier, IamInstanceProfile=profile),
            *LATE_IAM,
        )
    elif there is not None and wanted:
        association = there["AssociationId"]
        retry(
            call.api,
            IAM_PROPAGATION,
            lambda: send("ReplaceIamInstanceProfileAssociation", AssociationId=association, IamInstanceProfile=profile),
            *LATE_IAM,
        )
    elif there is not None:
        send("DisassociateIamInstanceProfile", AssociationId=there["AssociationId"])


def _simple_attributes(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    if change.touches("sourceDestCheck"):
        modify(send, identifier, SourceDestCheck={"Value": bool(change.planned.get("sourceDestCheck"))})
    if change.touches("instanceInitiatedShutdownBehavior"):
        behaviour = {"Value": change.planned.get("instanceInitiatedShutdownBehavior")}
        modify(send, identifier, InstanceInitiatedShutdownBehavior=behaviour)


def _groups(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    if not change.touches("vpcSecurityGroupIds"):
        return
    groups = sorted(change.planned.get("vpcSecurityGroupIds") or [])
    if not groups:
        raise ProviderError("VPC-based instances require at least one security group to be attached.")
    interface = change.state["primaryNetworkInterfaceId"]
    send("ModifyNetworkInterfaceAttribute", NetworkInterfaceId=interface, Groups=groups)


def _stopped(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    """What changes only on a stopped instance: one stop and start for each."""
    if change.touches("instanceType"):
        _with_stop(call, send, identifier, "InstanceType", {"Value": change.planned["instanceType"]})
    if change.touches("userData"):
        _with_stop(call, send, identifier, "UserData", {"Value": (change.planned.get("userData") or "").encode()})
    if change.touches("userDataBase64"):
        value = base64.b64decode(change.planned.get("userDataBase64") or "")
        _with_stop(call, send, identifier, "UserData", {"Value": value})


def _with_stop(call: Call[Aws], send: Send, identifier: str, name: str, value: Values) -> None:
    try:
        send("StopInstances", InstanceIds=[identifier])
    except AwsError as error:
        raise ProviderError(f"updating EC2 Instance ({identifier}): stopping EC2 Instance ({identifier}): {error}") from error
    pending = frozenset({"pending", "running", "shutting-down", "stopping"})
    await_state(call, send, identifier, Waiter("stopped", STOP_TIMEOUT, DELAY, FLOOR, pending=pending), "stop")
    modify(send, identifier, **{name: value})
    retry(
        call.api,
        IAM_PROPAGATION,
        lambda: send("StartInstances", InstanceIds=[identifier]),
        ("InvalidParameterValue", "LaunchPlan instance type does not match attribute value"),
    )
    waiter = Waiter("running", START_TIMEOUT, DELAY, FLOOR, pending=frozenset({"pending", "stopped"}))
    await_state(call, send, identifier, waiter, "start")


def _switches(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    for key, name in (("disableApiStop", "DisableApiStop"), ("disableApiTermination", "DisableApiTermination")):
        if change.touches(key):
            try:
                modify(send, identifier, **{name: {"Value": bool(change.planned.get(key))}})
            except ProviderError as error:
                if "not supported for spot instances" not in str(error):
                    raise
    if change.touches("monitoring"):
        operation = "MonitorInstances" if change.planned.get("monitoring") else "UnmonitorInstances"
        send(operation, InstanceIds=[identifier])


def _metadata(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    if change.touches("metadataOptions"):
        options = metadata_request(change.planned.get("metadataOptions")) or {}
        send("ModifyInstanceMetadataOptions", InstanceId=identifier, **options)


def _volume(call: Call[Aws], send: Send, identifier: str, change: Change) -> None:
    old, new = (values.get("rootBlockDevice") or {} for values in (change.state, change.planned))
    names = {"volumeSize": "Size", "volumeType": "VolumeType", "iops": "Iops", "throughput": "Throughput"}
    asked = {name: new[key] for key, name in names.items() if change.touches(f"rootBlockDevice.{key}") and new.get(key)}
    if asked:
        try:
            send("ModifyVolume", VolumeId=old["volumeId"], **asked)
        except AwsError as error:
            raise ProviderError(f"updating EC2 Instance ({identifier}) volume ({old['volumeId']}): {error}") from error
        _await_volume(call, send, identifier, old["volumeId"])
    if change.touches("rootBlockDevice.deleteOnTermination"):
        volume = {"DeviceName": old["deviceName"], "Ebs": {"DeleteOnTermination": bool(new.get("deleteOnTermination"))}}
        modify(send, identifier, BlockDeviceMappings=[volume])
    if change.touches("rootBlockDevice.tagsAll"):
        update_ec2_tags(send, old["volumeId"], Change(old, new, {"tagsAll": differ.Change.UPDATE}))


def _await_volume(call: Call[Aws], send: Send, identifier: str, volume: str) -> None:
    """Until the modification is applied; optimising may go on after."""

    def look() -> tuple[Values | None, str]:
        there = found(send, "DescribeVolumesModifications", "VolumesModifications", VolumeIds=[volume])
        state = str((there or {}).get("ModificationState", ""))
        return there, "completed" if state == "optimizing" else state

    try:
        Waiter("completed", call.timeout, delay=30.0, floor=30.0, pending=frozenset({"modifying"})).wait(look, call.api.sleep)
    except (NeverSeen, TimedOutWaiting, UnexpectedState) as error:
        raise ProviderError(f"waiting for EC2 Instance ({identifier}) volume ({volume}) update: {error}") from error
