"""The instance: its requests in order, waits, late IAM, no capacity, creates that fail halfway, updates in place, its end."""

from __future__ import annotations

import base64
import json
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2
from grpc_status import rpc_status
from pulumi.runtime.proto import provider_pb2

from rehearsal.providers.aws.api import pauses
from rehearsal.providers.values import Values, decode, encode
from tests.providers.direct import Direct, Made, failure, urn
from tests.providers_aws.account import Account, Requests, provider_for
from tests.providers_aws.program import PARTS, TAGS, Program

VM = PARTS["vm"][0]
CAPACITY = ("InsufficientInstanceCapacity", "We currently do not have sufficient g5g.xlarge capacity", 500)
LATE = (
    "InvalidParameterValue",
    "Value (fs-k3x9q2) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
)


@pytest.fixture
def program(owner: Account, aws: Direct) -> Program:
    return Program(owner, aws)


def incomplete(error: grpc.RpcError) -> tuple[str, Values, str]:
    """Id, state and reason of a create that failed halfway."""
    status: status_pb2.Status = rpc_status.from_call(error)
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    return detail.id, decode(detail.properties), detail.reasons[0]


def test_requests_of_a_create(owner: Account, program: Program, requests: Requests) -> None:
    arguments = program.arguments("vm")[1]
    requests.made.clear()
    made = program.provider.create(VM, arguments, "vm")
    operations = requests.operations()
    assert operations[operations.count("RunInstances") :] == ["CreateTags", "ModifyInstanceAttribute"]
    assert operations[0] == "RunInstances"  # and again, until the profile is known
    run = requests.asked("RunInstances")[0]
    assert run["InstanceMarketOptions"] == {
        "MarketType": "spot",
        "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
    }
    assert run["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "HttpPutResponseHopLimit": 2,
        "HttpTokens": "required",
    }
    assert run["BlockDeviceMappings"][0]["Ebs"] == {
        "DeleteOnTermination": True,
        "Encrypted": True,
        "Iops": 6000,
        "Throughput": 500,
        "VolumeSize": 100,
        "VolumeType": "gp3",
    }
    assert run["NetworkInterfaces"] == [
        {
            "AssociatePublicIpAddress": True,
            "DeviceIndex": 0,
            "Groups": [program.id("group")],
            "SubnetId": program.id("subnet"),
        }
    ]
    assert run["TagSpecifications"][0]["ResourceType"] == "instance"
    assert made.outputs["userData"] == arguments["userData"]
    assert made.outputs["instanceState"] == "running"
    assert made.outputs["spotInstanceRequestId"].startswith("sir-")
    assert made.outputs["rootBlockDevice"]["tagsAll"] == TAGS


def test_a_profile_that_is_not_known_yet_is_tried_again_for_two_minutes(program: Program, requests: Requests) -> None:
    arguments = program.arguments("vm")[1]
    requests.arm("RunInstances", *LATE, times=4)
    program.provider.create(VM, arguments, "vm")
    assert len(requests.asked("RunInstances")) >= 5


def test_a_profile_that_is_never_known_fails_after_two_minutes(program: Program, requests: Requests, owner: Account) -> None:
    arguments = program.arguments("vm")[1]
    requests.arm("RunInstances", *LATE)
    owner.slept.clear()
    with pytest.raises(grpc.RpcError) as caught:
        program.provider.create(VM, arguments, "vm")
    assert "creating EC2 Instance: " in failure(caught.value)
    assert "Invalid IAM Instance Profile" in failure(caught.value)
    assert 120 <= sum(owner.slept) < 135


def test_no_capacity_is_tried_again_far_beyond_the_create_timeout(program: Program, requests: Requests, owner: Account) -> None:
    """As the official provider does, whatever the timeouts say: 25 attempts in about 47 minutes."""
    arguments = program.arguments("vm")[1]
    requests.arm("RunInstances", *CAPACITY)
    owner.slept.clear()
    with pytest.raises(grpc.RpcError) as caught:
        program.provider.create(VM, arguments, "vm", timeout=60.0)
    assert "InsufficientInstanceCapacity" in failure(caught.value)
    assert len(requests.asked("RunInstances")) == 25
    assert 45 * 60 < sum(owner.slept) < 50 * 60


def test_max_retries_bounds_it(owner: Account, aws: Direct, requests: Requests) -> None:
    arguments = Program(owner, aws).arguments("vm")[1]
    requests.arm("RunInstances", *CAPACITY)
    with provider_for(owner, maxRetries="2") as other:
        owner.slept.clear()
        with pytest.raises(grpc.RpcError):
            other.create(VM, arguments, "vm")
    assert len(requests.asked("RunInstances")) == 2
    assert sum(owner.slept) < 1


def test_pauses_grow_to_a_cap() -> None:
    assert list(pauses(1)) == []
    assert sum(pauses(25)) == pytest.approx(47.4 * 60, rel=0.01)
    assert max(pauses(25)) <= 300.0
    assert sum(pauses(5, throttled=True)) > sum(pauses(5))


@pytest.mark.parametrize(
    "code", ["MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "SpotMaxPriceTooLow", "UnauthorizedOperation"]
)
def test_what_will_not_change_fails_at_once(program: Program, requests: Requests, owner: Account, code: str) -> None:
    arguments = program.arguments("vm")[1]
    requests.arm("RunInstances", code, "no")
    owner.slept.clear()
    with pytest.raises(grpc.RpcError, match=code):
        program.provider.create(VM, arguments, "vm")
    assert len(requests.asked("RunInstances")) == 1
    assert owner.slept == []


def _create(direct: Direct, arguments: dict[str, Any], timeout: float = 0.0) -> grpc.RpcError:
    inputs = direct.check(VM, arguments)
    request = provider_pb2.CreateRequest(urn=urn(VM, "vm"), properties=encode(inputs), timeout=timeout)
    with pytest.raises(grpc.RpcError) as caught:
        direct.stub.Create(request)
    return caught.value


def test_an_instance_that_dies_while_it_starts_is_kept_as_incomplete(
    program: Program, requests: Requests, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official provider's state is tainted; the next refresh finds it gone."""
    arguments = program.arguments("vm")[1]
    real, turned = owner.sleep, []

    def sleep(seconds: float) -> None:
        if seconds == 10.0 and not turned:  # the wait before the first look
            turned.append(owner.cloud.call("ec2", "TerminateInstances", InstanceIds=list(owner.cloud.instances())))
        real(seconds)

    monkeypatch.setattr(owner, "sleep", sleep)
    with provider_for(owner) as direct:
        identifier, state, reason = incomplete(_create(direct, arguments))
        assert identifier in owner.cloud.instances()
        assert f"waiting for EC2 Instance ({identifier}) create: unexpected state '" in reason
        assert "wanted target 'running'. last error: " in reason
        assert state["subnetId"] == program.id("subnet")
        owner.cloud.clock.sleep(60)
        assert direct.read(Made(VM, identifier, {}, state)) is None


def test_a_wait_that_is_too_short_leaves_it_incomplete(program: Program, requests: Requests, owner: Account) -> None:
    arguments = program.arguments("vm")[1]
    owner.cloud.state.pace = type(owner.cloud.state.pace)(pending=3600.0)
    identifier, state, reason = incomplete(_create(program.provider, arguments, timeout=30.0))
    assert reason.endswith("timeout while waiting for state to become 'running' (last state: 'pending', timeout: 30s)\n\n")
    assert state["instanceState"] == "pending"
    program.provider.delete(Made(VM, identifier, {}, state))


def test_terminated_is_gone_and_shutting_down_is_not(program: Program, owner: Account) -> None:
    made = program.make("vm")
    owner.cloud.call("ec2", "TerminateInstances", InstanceIds=[made.id])
    there = program.provider.read(made)
    assert there is not None
    assert there.outputs["instanceState"] == "shutting-down"
    owner.cloud.clock.sleep(60)
    assert program.provider.read(made) is None
    program.provider.delete(made)  # and its delete succeeds


def test_delete_cancels_the_spot_request_and_waits(program: Program, requests: Requests, owner: Account) -> None:
    made = program.make("vm")
    requests.made.clear()
    owner.slept.clear()
    program.provider.delete(made)
    assert requests.operations() == ["CancelSpotInstanceRequests", "TerminateInstances"]
    assert owner.slept[0] == 10.0
    assert owner.cloud.instances()[made.id] == "terminated"


def test_on_demand_new_user_data_stops_and_starts(owner: Account, program: Program, requests: Requests) -> None:
    kind, arguments = program.arguments("vm")
    del arguments["instanceMarketOptions"]
    made = program.provider.create(kind, arguments, "vm")
    inputs = program.provider.check(kind, arguments | {"userData": "#!/bin/bash\necho new\n"}, "vm", made.inputs)
    requests.made.clear()
    updated = program.provider.update(made, inputs)
    assert requests.operations() == ["StopInstances", "ModifyInstanceAttribute", "StartInstances"]
    assert updated.id == made.id
    assert updated.outputs["instanceState"] == "running"
    told = owner.cloud.call("ec2", "DescribeInstanceAttribute", InstanceId=made.id, Attribute="userData")
    assert base64.b64decode(told["UserData"]["Value"]) == b"#!/bin/bash\necho new\n"


def test_a_one_time_spot_instance_does_not_stop(program: Program) -> None:
    """So new user data is an update that is shown and then fails; the engine keeps the state before."""
    kind, arguments = program.arguments("vm")
    made = program.provider.create(kind, arguments, "vm")
    inputs = program.provider.check(kind, arguments | {"userData": "new"}, "vm", made.inputs)
    assert program.provider.diff(made, inputs).op == "update"
    with pytest.raises(grpc.RpcError) as caught:
        program.provider.update(made, inputs)
    _, state, reason = incomplete(caught.value)
    assert f"updating EC2 Instance ({made.id}): stopping EC2 Instance ({made.id}): " in reason
    assert "UnsupportedOperation" in reason
    assert state["userData"] == arguments["userData"]


def test_updates_in_place(owner: Account, program: Program, requests: Requests) -> None:
    kind, arguments = program.arguments("vm")
    made = program.provider.create(kind, arguments, "vm")
    change = {
        "instanceInitiatedShutdownBehavior": "stop",
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 3},
        "rootBlockDevice": arguments["rootBlockDevice"] | {"volumeSize": 150, "tags": {"app": "other"}},
        "sourceDestCheck": False,
    }
    inputs = program.provider.check(kind, arguments | change, "vm", made.inputs)
    requests.made.clear()
    program.provider.update(made, inputs)
    assert requests.operations() == [
        "ModifyInstanceAttribute",
        "ModifyInstanceAttribute",
        "ModifyInstanceMetadataOptions",
        "ModifyVolume",
        "DeleteTags",
        "CreateTags",
    ]
    told = program.provider.read(Made(kind, made.id, inputs, made.outputs))
    assert told is not None
    assert told.outputs["instanceInitiatedShutdownBehavior"] == "stop"
    assert told.outputs["metadataOptions"]["httpPutResponseHopLimit"] == 3
    assert told.outputs["rootBlockDevice"]["volumeSize"] == 150
    assert told.outputs["rootBlockDevice"]["tagsAll"] == {"app": "other"}
    assert told.outputs["sourceDestCheck"] is False


def test_user_data_that_is_too_long_is_refused(program: Program, requests: Requests) -> None:
    arguments = program.arguments("vm")[1] | {"userData": "x" * 16385}
    with pytest.raises(grpc.RpcError, match="expected length of user_data to be in the range"):
        program.provider.create(VM, arguments, "vm")
    assert requests.asked("RunInstances") == []


def test_the_schedule_waits_for_its_role(program: Program, requests: Requests, owner: Account) -> None:
    kind, arguments = program.arguments("schedule")
    text = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
    requests.arm("CreateSchedule", "ValidationException", text, times=3)
    made = program.provider.create(kind, arguments, "schedule")
    assert len(requests.asked("CreateSchedule")) >= 4  # the local cloud is late with IAM by itself too
    assert made.id == "default/fs-k3x9q2"
    assert json.loads(made.outputs["target"]["input"])["InstanceIds"] == [program.id("vm")]


def test_a_group_in_use_is_tried_again_until_its_machine_is_gone(program: Program, requests: Requests, owner: Account) -> None:
    group, made = program.make("group"), program.make("vm")
    requests.arm("DeleteSecurityGroup", "DependencyViolation", "resource sg-1 has a dependent object", times=5)
    program.provider.delete(made)
    program.provider.delete(group)
    assert len(requests.asked("DeleteSecurityGroup")) == 6


def test_a_new_group_lets_nothing_out(owner: Account, aws: Direct) -> None:
    program = Program(owner, aws)
    made = aws.create(PARTS["group"][0], {"vpcId": program.id("vpc"), "name": "closed"}, "group")
    group = owner.cloud.call("ec2", "DescribeSecurityGroups", GroupIds=[made.id])["SecurityGroups"][0]
    assert group["IpPermissionsEgress"] == group["IpPermissions"] == []
    assert made.outputs["egress"] == made.outputs["ingress"] == []
