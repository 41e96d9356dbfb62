"""Whatever is sent, the answer is a refusal and never a failure of ours."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rehearsal.cloud.aws import LocalAwsCloud
from tests.cloud_aws.conftest import World
from tests.cloud_aws.test_front import FORM, JSON, send

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
PATHS = st.text("abc/%20?&=.-_~äß \x7f", max_size=30).map(lambda t: "/" + t.replace("%", "%25").replace(" ", "%20"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
OPERATIONS = ("GetParameter", "SendCommand", "CreateAssociation", "StartSession", "GetCommandInvocation", "DescribeAssociation")
ACTIONS = ("RunInstances", "TerminateInstances", "DescribeInstances", "CreateVpc", "DescribeSpotPriceHistory", "CreateTags")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One cloud for all of it."""
    cloud = LocalAwsCloud(account="333333333333")
    cloud.start()
    yield World(cloud, [])
    cloud.stop()


def refused_or_done(status: int, world: World) -> bool:
    """What moto trips over is answered 500 and said; all else is ours to refuse."""
    ours = [text for text in world.cloud.own_errors() if not text.startswith("moto failed")]
    world.cloud.log.clear()
    return (200 <= status < 500 or status in (500, 501)) and ours == []


@FEW
@given(
    st.sampled_from(OPERATIONS),
    st.dictionaries(st.sampled_from(["Name", "Parameters", "Targets", "InstanceIds", "Target", "x"]), VALUES, max_size=4),
)
def test_json(world: World, operation: str, body: dict[str, object]) -> None:
    answer = send(world, "ssm", json.dumps(body).encode(), Content_Type=JSON, X_Amz_Target=f"AmazonSSM.{operation}")
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


TARGETS = {
    "SageMaker.CreateModel": "sagemaker",
    "SageMaker.CreateEndpointConfig": "sagemaker",
    "SageMaker.UpdateEndpoint": "sagemaker",
    "AmazonEC2ContainerRegistry_V20150921.BatchGetImage": "ecr",
    "Logs_20140328.GetLogEvents": "logs",
    "AnyScaleFrontendService.RegisterScalableTarget": "application-autoscaling",
    "AWSBudgetServiceGateway.CreateBudget": "budgets",
}
NAMES = ("ModelName", "EndpointName", "EndpointConfigName", "ProductionVariants", "repositoryName", "imageIds", "logGroupName", "x")


@FEW
@given(st.sampled_from(sorted(TARGETS)), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_hosting(world: World, target: str, body: dict[str, object]) -> None:
    answer = send(world, TARGETS[target], json.dumps(body).encode(), Content_Type=JSON, X_Amz_Target=target)
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


@FEW
@given(st.sampled_from(("CreateProject", "StartBuild", "BatchGetBuilds", "Nothing")), st.binary(max_size=40))
def test_binary_documents(world: World, operation: str, body: bytes) -> None:
    path = f"/service/CodeBuild_20161006/operation/{operation}"
    answer = send(world, "codebuild", body, path=path, Content_Type="application/cbor", smithy_protocol="rpc-v2-cbor")
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


@FEW
@given(st.text("abc-_%20/", max_size=12), st.binary(max_size=40))
def test_invocations(world: World, name: str, body: bytes) -> None:
    answer = send(world, "sagemaker", body, path=f"/endpoints/{name}/invocations", Content_Type="application/json")
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


@FEW
@given(
    st.sampled_from(ACTIONS),
    st.dictionaries(
        st.sampled_from(["InstanceType", "MinCount", "MaxCount", "ImageId", "UserData", "Filter.1.Name", "InstanceId.1"]),
        st.text(max_size=10),
    ),
)
def test_forms(world: World, action: str, fields: dict[str, str]) -> None:
    from urllib.parse import urlencode

    body = urlencode({"Action": action, "Version": "2016-11-15", **fields}).encode()
    answer = send(world, "ec2", body, Content_Type=FORM)
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


@FEW
@given(st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]), PATHS, st.binary(max_size=40))
def test_objects(world: World, method: str, path: str, body: bytes) -> None:
    answer = send(world, "s3", body if method in ("PUT", "POST") else b"", method=method, path=path)
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


@FEW
@given(st.sampled_from(["GET", "PUT", "POST", "DELETE"]), PATHS, st.binary(max_size=40))
def test_schedules(world: World, method: str, path: str, body: bytes) -> None:
    answer = send(world, "scheduler", body, method=method, path="/schedules" + path, Content_Type="application/json")
    assert refused_or_done(answer.status, world), (answer, world.cloud.own_errors()[-1:])


@FEW
@given(st.text(max_size=60), st.binary(max_size=30))
def test_signatures(world: World, header: str, body: bytes) -> None:
    for text in (
        header,
        "AWS4-HMAC-SHA256 " + header,
        f"AWS4-HMAC-SHA256 Credential={header}, SignedHeaders=host, Signature={'0' * 64}",
    ):
        answer = world.cloud.request("POST", "/", {"Host": "ec2.us-east-1.amazonaws.com", "Authorization": text}, body)
        assert answer.status in (400, 403, 501) and refused_or_done(answer.status, world)
