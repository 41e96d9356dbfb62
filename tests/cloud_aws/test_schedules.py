"""EventBridge Scheduler: at a time it terminates, with its role's permission, and is gone."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cloud_aws.conftest import World, refused

TARGET = "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
TAGS = [{"ResourceType": "instance", "Tags": [{"Key": "flexserve-id", "Value": "abc"}]}]


def terminates(wanted: str) -> dict[str, Any]:
    condition = {"StringEquals": {"ec2:ResourceTag/flexserve-id": wanted}}
    return {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*", "Condition": condition}


def schedule(world: World, vm: str, role: str, *, seconds: float = 3600, **over: Any) -> None:
    when = datetime.fromtimestamp(world.cloud.clock.now() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    arguments: dict[str, Any] = {
        "Name": "fs-abc",
        "ScheduleExpression": f"at({when})",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {"Arn": TARGET, "RoleArn": role, "Input": json.dumps({"InstanceIds": [vm]})},
    }
    world.scheduler.create_schedule(**arguments | over)


def test_it_fires_once_and_deletes_itself(world: World) -> None:
    vm = world.running(TagSpecifications=TAGS)
    schedule(world, vm, world.role("clock", "scheduler.amazonaws.com", terminates("abc")))
    assert world.scheduler.get_schedule(Name="fs-abc")["State"] == "ENABLED"
    assert abs((world.cloud.schedules()["fs-abc"] or 0) - world.cloud.clock.now() - 3600) < 60
    world.cloud.clock.advance(3500)
    assert world.state(vm) == "running"
    world.cloud.clock.advance(110)
    assert world.state(vm) == "terminated" and world.left() == []
    with refused("ResourceNotFoundException"):
        world.scheduler.get_schedule(Name="fs-abc")


def test_its_role_must_allow_it(world: World) -> None:
    vm = world.running(TagSpecifications=TAGS)
    schedule(world, vm, world.role("clock", "scheduler.amazonaws.com", terminates("somebody-else")))
    world.cloud.clock.advance(3700)
    assert world.state(vm) == "running" and world.scheduler.get_schedule(Name="fs-abc")
    document = json.dumps({"Version": "2012-10-17", "Statement": [terminates("abc")]})
    world.iam.put_role_policy(RoleName="clock", PolicyName="own", PolicyDocument=document)
    world.cloud.clock.advance(120)
    assert world.state(vm) == "terminated"  # it is tried again


def test_it_is_kept_where_nobody_asked_to_delete_it(world: World) -> None:
    vm = world.running(TagSpecifications=TAGS)
    schedule(world, vm, world.role("clock", "scheduler.amazonaws.com", terminates("abc")), ActionAfterCompletion="NONE")
    world.cloud.clock.advance(3700)
    assert world.state(vm) == "terminated" and world.scheduler.get_schedule(Name="fs-abc")


def test_a_moved_schedule_fires_at_the_new_time(world: World) -> None:
    vm = world.running(TagSpecifications=TAGS)
    role = world.role("clock", "scheduler.amazonaws.com", terminates("abc"))
    schedule(world, vm, role)
    found = world.scheduler.get_schedule(Name="fs-abc")
    when = datetime.fromtimestamp(world.cloud.clock.now() + 7200, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    kept = {k: found[k] for k in ("Name", "FlexibleTimeWindow", "Target", "ActionAfterCompletion")}
    world.scheduler.update_schedule(**kept, ScheduleExpression=f"at({when})")
    world.cloud.clock.advance(3700)
    assert world.state(vm) == "running"
    world.cloud.clock.advance(3600)
    assert world.state(vm) == "terminated"


def test_a_deleted_schedule_never_fires(world: World) -> None:
    vm = world.running(TagSpecifications=TAGS)
    schedule(world, vm, world.role("clock", "scheduler.amazonaws.com", terminates("abc")))
    world.scheduler.delete_schedule(Name="fs-abc")
    world.cloud.clock.advance(3700)
    assert world.state(vm) == "running" and world.scheduler.list_schedules()["Schedules"] == []


@pytest.mark.parametrize(
    "over",
    [
        {"ScheduleExpression": "at(tomorrow)"},
        {"ScheduleExpression": "at(2026-13-01T00:00:00)"},
        {"ScheduleExpressionTimezone": "Nowhere/Town"},
        {"FlexibleTimeWindow": {"Mode": "FLEXIBLE"}},
    ],
)
def test_what_cannot_fire_is_refused(world: World, over: dict[str, Any]) -> None:
    role = world.role("clock", "scheduler.amazonaws.com", terminates("abc"))
    with refused("ValidationException"):
        schedule(world, "i-1", role, **over)


def test_a_role_that_scheduler_may_not_assume_yet(world: World) -> None:
    with refused("ValidationException"):
        schedule(world, "i-1", world.role("wrong", "ec2.amazonaws.com"))
    world.cloud.delay_iam(20)
    role = world.role("clock", "scheduler.amazonaws.com", terminates("abc"))
    with refused("ValidationException"):
        schedule(world, "i-1", role)
    world.cloud.clock.advance(21)
    schedule(world, "i-1", role)


def test_a_name_is_taken_once(world: World) -> None:
    role = world.role("clock", "scheduler.amazonaws.com", terminates("abc"))
    schedule(world, "i-1", role)
    with refused("ConflictException"):
        schedule(world, "i-1", role)


def test_a_time_in_another_zone(world: World) -> None:
    from zoneinfo import ZoneInfo

    vm = world.running(TagSpecifications=TAGS)
    role = world.role("clock", "scheduler.amazonaws.com", terminates("abc"))
    there = datetime.fromtimestamp(world.cloud.clock.now() + 1800, ZoneInfo("Asia/Tokyo")).strftime("%Y-%m-%dT%H:%M:%S")
    schedule(world, vm, role, ScheduleExpression=f"at({there})", ScheduleExpressionTimezone="Asia/Tokyo")
    world.cloud.clock.advance(1900)
    assert world.state(vm) == "terminated"
