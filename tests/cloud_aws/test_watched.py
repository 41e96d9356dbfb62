"""Logs, alarms, budgets, the schedule that ends an endpoint, and the scaling of its variant."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.targets.sagemaker import rights
from infra.targets.sagemaker.names import Names
from tests.cloud_aws.conftest import refused
from tests.cloud_aws.hosting import NAME, Hosted, hosted

RESOURCE = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": f"endpoint/{NAME}/variant/main",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture
def world() -> Iterator[Hosted]:
    with hosted() as there:
        yield there


def test_a_log_is_read_page_by_page(world: Hosted) -> None:
    logs = world.logs
    logs.create_log_group(logGroupName="g", tags={"a": "b"})
    logs.put_retention_policy(logGroupName="g", retentionInDays=14)
    (group,) = logs.describe_log_groups(logGroupNamePrefix="g")["logGroups"]
    assert group["retentionInDays"] == 14 and logs.list_tags_for_resource(resourceArn=group["logGroupArn"])["tags"] == {"a": "b"}
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    assert "g" not in [item.name for item in world.cloud.ledger.left()]
    lines = [{"timestamp": n, "message": f"line {n}"} for n in range(1, 8)]
    logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=lines)
    seen, token = [], None
    while True:
        more = {"nextToken": token} if token else {}
        page = logs.get_log_events(logGroupName="g", logStreamName="s", startFromHead=True, limit=3, **more)
        seen += [event["message"] for event in page["events"]]
        if page["nextForwardToken"] == token:
            break
        token = page["nextForwardToken"]
    assert seen == [f"line {n}" for n in range(1, 8)]
    tail = logs.get_log_events(logGroupName="g", logStreamName="s", limit=2)["events"]
    assert [event["message"] for event in tail] == ["line 6", "line 7"]
    assert [e["message"] for e in logs.filter_log_events(logGroupName="g", filterPattern='"line 3"')["events"]] == ["line 3"]
    assert "g" in [item.name for item in world.cloud.ledger.left()]
    logs.delete_log_group(logGroupName="g")
    with refused("ResourceNotFoundException"):
        logs.describe_log_streams(logGroupName="g")


def test_an_alarm_bills_and_a_budget_does_not(world: Hosted) -> None:
    world.cloudwatch.put_metric_alarm(
        AlarmName="fs-abc", MetricName="x", Namespace="y", Period=60, EvaluationPeriods=1, Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold", Statistic="Sum", Tags=[{"Key": "a", "Value": "b"}],
    )  # fmt: skip
    (alarm,) = world.cloudwatch.describe_alarms(AlarmNames=["fs-abc"])["MetricAlarms"]
    assert world.cloudwatch.list_tags_for_resource(ResourceARN=alarm["AlarmArn"])["Tags"] == [{"Key": "a", "Value": "b"}]
    assert "alarm" in world.left()
    world.cloudwatch.delete_alarms(AlarmNames=["fs-abc"])
    budget = {"BudgetName": "fs-abc", "BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": {"Amount": "30", "Unit": "USD"}}
    world.budgets.create_budget(AccountId=world.cloud.account, Budget=budget)
    assert world.budgets.describe_budget(AccountId=world.cloud.account, BudgetName="fs-abc")["Budget"]["BudgetType"] == "COST"
    with refused("DuplicateRecordException"):
        world.budgets.create_budget(AccountId=world.cloud.account, Budget=budget)
    world.budgets.delete_budget(AccountId=world.cloud.account, BudgetName="fs-abc")
    assert world.left() == ["repository"]


def clock(world: Hosted, seconds: float, tag: str = "abc", *more: dict[str, Any]) -> None:
    statement = {
        "Effect": "Allow",
        "Action": "sagemaker:DeleteEndpoint",
        "Resource": f"arn:aws:sagemaker:us-east-1:{world.cloud.account}:endpoint/{NAME}",
        "Condition": {"StringEquals": {"aws:ResourceTag/flexserve-id": tag}},
    }
    when = datetime.fromtimestamp(world.cloud.clock.now() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    target = {
        "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
        "RoleArn": world.role("clock", "scheduler.amazonaws.com", statement, *more),
        "Input": json.dumps({"EndpointName": NAME}),
    }
    off = {"Mode": "OFF"}
    world.scheduler.create_schedule(
        Name=NAME, ScheduleExpression=f"at({when})", FlexibleTimeWindow=off, ActionAfterCompletion="DELETE", Target=target
    )


def test_the_schedule_deletes_the_endpoint_with_its_roles_right(world: Hosted) -> None:
    world.create(Tags=[{"Key": "flexserve-id", "Value": "abc"}])
    clock(world, 3600)
    world.cloud.clock.advance(3500)
    assert world.status() == "InService"
    world.cloud.clock.advance(200)
    assert world.cloud.endpoints() == {} and world.cloud.schedules() == {}
    assert world.left() == ["repository", "log_group"]


def test_the_schedule_waits_out_an_endpoint_in_creation(world: Hosted) -> None:
    world.create(Tags=[{"Key": "flexserve-id", "Value": "abc"}])
    clock(world, 300)
    world.cloud.clock.advance(400)
    assert world.status() == "Creating" and world.cloud.schedules()
    world.cloud.clock.advance(600)
    assert world.cloud.endpoints() == {}


def test_the_schedule_may_delete_nobody_elses(world: Hosted) -> None:
    world.create(Tags=[{"Key": "flexserve-id", "Value": "other"}])
    clock(world, 1000)
    world.cloud.clock.advance(1200)
    assert world.status() == "InService"


def scaled(world: Hosted, metric: str = "SageMakerVariantInvocationsPerInstance") -> None:
    world.up()
    scaling = world.application_autoscaling
    scaling.register_scalable_target(**RESOURCE, MinCapacity=1, MaxCapacity=2)
    scaling.put_scaling_policy(
        **RESOURCE,
        PolicyName=NAME,
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 2.0,
            "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
            "ScaleInCooldown": 60,
            "ScaleOutCooldown": 60,
        },
    )


def test_a_busy_variant_grows_and_an_idle_one_shrinks(world: Hosted) -> None:
    scaled(world)
    for _ in range(4):
        for _ in range(5):
            world.ask()
        world.cloud.clock.advance(60)
    assert world.status() == "Updating"
    world.cloud.clock.advance(800)
    assert world.status() == "InService" and world.shown()["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    assert world.left().count("endpoint_instance") == 2
    assert len({world.ask()["from"] for _ in range(4)}) >= 1
    world.cloud.clock.advance(20 * 60)
    world.cloud.clock.advance(60)
    assert world.shown()["ProductionVariants"][0]["CurrentInstanceCount"] == 1
    assert world.left().count("endpoint_instance") == 1


def test_a_target_goes_with_its_endpoint(world: Hosted) -> None:
    scaled(world)
    scaling = world.application_autoscaling
    assert len(scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]) == 1
    world.sagemaker.delete_endpoint(EndpointName=NAME)
    world.cloud.clock.advance(120)
    assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []
    with refused("ObjectNotFoundException"):
        scaling.deregister_scalable_target(**RESOURCE)


def test_the_schedule_ends_one_that_scales_only_with_the_right_to_take_it_out_of_scaling(world: Hosted) -> None:
    """With the rights that the product gives its clock; first without the second statement."""
    scaled(world)
    deletes, unscales = json.loads(rights.clock("us-east-1", Names("abc"), int(world.cloud.clock.now()) + 100))["Statement"]
    clock(world, 100, "nobody's", deletes)
    world.cloud.clock.advance(300)
    assert world.status() == "InService" and "DeregisterScalableTarget" in world.cloud.state.schedules[NAME]["_why"]
    policy = {"Version": "2012-10-17", "Statement": [deletes, unscales]}
    world.iam.put_role_policy(RoleName="clock", PolicyName="own", PolicyDocument=json.dumps(policy))
    world.cloud.clock.advance(300)
    assert world.cloud.endpoints() == {} and world.cloud.schedules() == {}


def test_a_schedule_that_found_nothing_does_not_delete_the_next_windows_endpoint(world: Hosted) -> None:
    """It is tried again for a day; the role may delete from the end of the window on that it was last given."""
    now = int(world.cloud.clock.now())
    clock(world, 100, "nobody's", *json.loads(rights.clock("us-east-1", Names("abc"), now + 100))["Statement"])
    world.cloud.clock.advance(300)
    assert "Could not find" in world.cloud.state.schedules[NAME]["_why"]
    world.iam.put_role_policy(
        RoleName="clock", PolicyName="own", PolicyDocument=rights.clock("us-east-1", Names("abc"), now + 7200)
    )
    world.up()
    world.cloud.clock.advance(600)
    assert world.status() == "InService" and "not authorized" in world.cloud.state.schedules[NAME]["_why"]
    world.cloud.clock.advance(7200)
    assert world.cloud.endpoints() == {}


def test_only_a_variant_that_is_there_can_be_scaled(world: Hosted) -> None:
    with refused("ValidationException"):
        world.application_autoscaling.register_scalable_target(**RESOURCE, MinCapacity=1, MaxCapacity=2)
