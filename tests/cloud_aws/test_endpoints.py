"""SageMaker endpoints: what they do on the clock, and what they refuse."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError, ParamValidationError

from tests.cloud_aws.conftest import refused
from tests.cloud_aws.hosting import GROUP, NAME, Hosted, hosted


@pytest.fixture
def world() -> Iterator[Hosted]:
    with hosted() as there:
        yield there


@pytest.fixture(scope="module")
def quiet() -> Iterator[Hosted]:
    """One for all that is refused."""
    with hosted() as there:
        yield there


def seconds(world: Hosted) -> float:
    shown = world.shown()
    return float((shown["LastModifiedTime"] - shown["CreationTime"]).total_seconds())


def test_it_serves_after_the_recorded_time_and_answers(world: Hosted) -> None:
    world.create()
    assert world.status() == "Creating" and world.left() == ["repository"]
    world.cloud.clock.advance(300)
    assert world.left() == ["repository", "endpoint_instance"]
    assert world.logs.describe_log_streams(logGroupName=GROUP)["logStreams"] == []
    with refused("ValidationError"):
        world.ask(x=1)
    world.cloud.clock.advance(500)
    assert world.status() == "InService" and seconds(world) == pytest.approx(793, abs=20)
    assert world.ask(x=1)["was"] == {"x": 1}
    assert "INFO starting" in world.said()
    (variant,) = world.shown()["ProductionVariants"]
    assert variant["CurrentInstanceCount"] == 1 and variant["DeployedImages"][0]["ResolvedImage"] == world.image


def test_a_stream_comes_piece_by_piece(world: Hosted) -> None:
    world.up()
    parts = [event["PayloadPart"]["Bytes"] for event in world.stream()]
    assert b"".join(parts) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n" and len(parts) == 3


def test_a_stream_that_breaks_says_so(world: Hosted) -> None:
    world.up()
    with pytest.raises(EventStreamError, match="ModelStreamError"):
        list(world.stream(cut=True))


def test_the_containers_own_refusal_is_a_model_error(world: Hosted) -> None:
    world.up()
    with pytest.raises(ClientError) as caught:
        world.ask(bad=True)
    response = caught.value.response
    assert response["Error"]["Code"] == "ModelError" and response["OriginalStatusCode"] == 400
    assert json.loads(response["OriginalMessage"])["error"]["message"] == "bad" and GROUP in response["LogStreamArn"]


def test_nothing_is_deleted_while_it_is_created_or_updated(world: Hosted) -> None:
    config = world.config()
    world.create(config)
    with refused("ValidationException"):
        world.sagemaker.delete_endpoint(EndpointName=NAME)
    world.cloud.clock.advance(800)
    world.sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=world.config("ml.g6.xlarge"))
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        world.sagemaker.delete_endpoint(EndpointName=NAME)
    with refused("ValidationException"):
        world.sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=config)
    world.cloud.clock.advance(900)
    world.sagemaker.delete_endpoint(EndpointName=NAME)
    assert world.status() == "Deleting"
    world.cloud.clock.advance(60)
    with pytest.raises(ClientError, match="Could not find endpoint"):
        world.shown()
    assert world.left() == ["repository", "log_group"]


def test_an_update_loses_no_request_and_the_old_one_serves_until_the_new_one_does(world: Hosted) -> None:
    world.up()
    world.cluster.slow_s = 0.05
    seen, failed, over = [], [], threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                seen.append(world.ask()["from"])
            except Exception as error:
                failed.append(error)
            time.sleep(0.01)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    (first,) = world.cluster.made
    config = world.config("ml.g6.xlarge")
    world.sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=config)
    world.cloud.clock.advance(500)
    assert world.status() == "Updating" and world.shown()["PendingDeploymentSummary"]["EndpointConfigName"] == config
    until = len(seen) + 5
    while len(seen) < until:
        time.sleep(0.01)
    assert set(seen) == {first.spec.name} and not first.stopped
    world.cloud.clock.advance(400)
    until = len(seen) + 5
    while len(seen) < until:
        time.sleep(0.01)
    over.set()
    for asker in askers:
        asker.join()
    second = world.cluster.made[1]
    assert failed == [] and seen[-1] == second.spec.name and first.stopped
    assert world.status() == "InService" and world.shown()["EndpointConfigName"] == config
    assert [i.name for i in world.cloud.ledger.left() if i.kind == "endpoint_instance"] == [f"{NAME}/{second.spec.name}"]


def test_an_update_whose_containers_die_rolls_back(world: Hosted) -> None:
    config = world.config()
    world.up(config)
    world.cluster.dies = True
    world.sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=world.config("ml.g6.xlarge"))
    world.cloud.clock.advance(379 + 900 + 12)
    assert world.status() == "RollingBack"
    world.cloud.clock.advance(60)
    shown = world.shown()
    assert shown["EndpointStatus"] == "InService" and shown["EndpointConfigName"] == config
    assert "did not pass the ping health check" in shown["FailureReason"]
    assert world.ask()["from"] == world.cluster.made[0].spec.name


def test_an_update_may_be_taken_back_without_a_word() -> None:
    with hosted(roll_back=0.0) as world:
        config = world.config()
        world.up(config)
        world.cluster.dies = True
        world.sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=world.config("ml.g6.xlarge"))
        world.cloud.clock.advance(379 + 900 + 12)
        shown = world.shown()
        assert (shown["EndpointStatus"], shown["EndpointConfigName"]) == ("InService", config) and "FailureReason" not in shown


@pytest.mark.parametrize(
    ("host", "environment", "starts"),
    [
        ("al2023-ami-sagemaker-inference-gpu-4-1", "cuda>=13.0", True),
        ("al2-ami-sagemaker-inference-gpu-3-1", "cuda>=13.0", False),
        (None, "cuda>=13.0", False),
        ("al2023-ami-sagemaker-inference-gpu-4-1", "cuda>=12.9", False),
        ("al2-ami-sagemaker-inference-gpu-3-1", "cuda>=12.4", True),
    ],
)
def test_the_hosts_driver_and_the_images_cuda(world: Hosted, host: str | None, environment: str, starts: bool) -> None:
    digest = world.shelf.put(world.cloud.account, "fs-abc", "two", environment={"NVIDIA_REQUIRE_CUDA": environment})
    world.image = f"{world.image.split('@')[0]}@{digest}"
    world.create(world.config(InferenceAmiVersion=host))
    world.cloud.clock.advance(800)
    shown = world.shown()
    if starts:
        assert shown["EndpointStatus"] == "InService"
        return
    assert shown["EndpointStatus"] == "Failed" and shown["FailureReason"].startswith("CannotStartContainerError")
    assert seconds(world) == pytest.approx(379, abs=20)
    assert world.said() == [] and world.cluster.made == [] and world.left() == ["repository"]


def test_no_capacity_is_said_after_half_an_hour(world: Hosted) -> None:
    world.cloud.take_endpoint_type("ml.g4dn.xlarge")
    world.create()
    world.cloud.clock.advance(1700)
    assert world.status() == "Creating" and world.left() == ["repository"]
    world.cloud.clock.advance(150)
    assert world.status() == "Failed" and "InsufficientInstanceCapacity" in world.shown()["FailureReason"]
    world.sagemaker.delete_endpoint(EndpointName=NAME)
    world.cloud.clock.advance(60)
    assert world.cloud.endpoints() == {}


def test_a_crashing_container_holds_it_until_the_health_checks_window_closes(world: Hosted) -> None:
    world.cluster.dies = True
    world.create(world.config(ContainerStartupHealthCheckTimeoutInSeconds=1800))
    world.cloud.clock.advance(379 + 181)
    assert world.status() == "Creating" and sum("OutOfMemory" in line for line in world.said()) >= 3
    world.cloud.clock.advance(1700)
    assert world.status() == "Failed" and seconds(world) == pytest.approx(2190, abs=30)
    assert "did not pass the ping health check" in world.shown()["FailureReason"]


@pytest.mark.parametrize(("how", "text"), [("cannot_pull", "make sure all images exist"), ("cannot_start", "CannotStartContainer")])
def test_a_container_that_never_starts(world: Hosted, how: str, text: str) -> None:
    setattr(world.cluster, how, True)
    world.create()
    world.cloud.clock.advance(500)
    assert world.status() == "Failed" and text in world.shown()["FailureReason"]
    assert world.said() == []


def test_a_container_that_never_answers(world: Hosted) -> None:
    with hosted(patience=0.3) as other:
        other.cluster.hangs = True
        other.create()
        other.cloud.clock.advance(2000)
        assert other.status() == "Failed" and "ping health check" in other.shown()["FailureReason"]


def test_a_role_that_may_not_pull(world: Hosted) -> None:
    world.iam.delete_role_policy(RoleName="run", PolicyName="own")
    world.create()
    world.cloud.clock.advance(500)
    assert world.status() == "Failed" and "ecr:BatchGetImage" in world.shown()["FailureReason"]


def test_a_role_that_may_not_write_logs_writes_none(world: Hosted) -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": list(RIGHTS_WITHOUT_LOGS)})
    world.iam.put_role_policy(RoleName="run", PolicyName="own", PolicyDocument=document)
    world.up()
    assert world.logs.describe_log_streams(logGroupName=GROUP)["logStreams"] == []


RIGHTS_WITHOUT_LOGS = ({"Effect": "Allow", "Action": "ecr:*", "Resource": "*"},)


def test_a_role_that_cannot_be_assumed_yet(world: Hosted) -> None:
    world.cloud.delay_iam(20)
    world.role("late", "sagemaker.amazonaws.com")
    arn = f"arn:aws:iam::{world.cloud.account}:role/late"

    def make() -> Any:
        return world.sagemaker.create_model(ModelName="late", PrimaryContainer={"Image": world.image}, ExecutionRoleArn=arn)

    with pytest.raises(ClientError, match="Could not assume role"):
        make()
    world.cloud.clock.advance(21)
    assert make()["ModelArn"].endswith("model/late")


@pytest.mark.parametrize("before", [True, False], ids=["before", "while it is deleted"])
def test_without_its_role_an_endpoint_never_goes(world: Hosted, before: bool) -> None:
    world.up()
    steps = [
        lambda: world.iam.delete_role_policy(RoleName="run", PolicyName="own"),
        lambda: world.iam.delete_role(RoleName="run"),
        lambda: world.sagemaker.delete_endpoint(EndpointName=NAME),
    ]
    for step in steps if before else [steps[2], *steps[:2]]:
        step()
    world.cloud.clock.advance(7200)
    assert world.status() == "Deleting" and "endpoint_instance" in world.left()
    world.role("run", "sagemaker.amazonaws.com")
    world.cloud.clock.advance(400)
    assert world.cloud.endpoints() == {}


def test_a_configuration_in_use_can_be_deleted_and_then_nothing_can_be_updated(world: Hosted) -> None:
    config = world.config()
    world.up(config)
    world.sagemaker.delete_endpoint_config(EndpointConfigName=config)
    with pytest.raises(ClientError, match="Could not find endpoint configuration"):
        world.sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=world.config())
    assert world.ask()


def test_a_configuration_is_not_seen_at_once() -> None:
    with hosted() as world:
        object.__setattr__(world.cloud.state.pace, "config", 5.0)
        config = world.config()
        with pytest.raises(ClientError, match="Could not find endpoint configuration"):
            world.create(config)
        world.cloud.clock.advance(6)
        world.create(config)


def test_the_quota(world: Hosted) -> None:
    world.cloud.set_endpoint_quota("ml.g4dn.xlarge", 0)
    with refused("ResourceLimitExceeded"):
        world.create()


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("docker.io/vllm/vllm-openai:v0.30.0", "Using non-ECR image"),
        ("763104351884.dkr.ecr.eu-west-1.amazonaws.com/vllm:0.30.0", "in region eu-west-1"),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:none", "not found"),
    ],
)
def test_an_image_that_will_not_do(quiet: Hosted, image: str, text: str) -> None:
    with pytest.raises(ClientError, match=text):
        quiet.model(Image=image)


def test_an_index_is_refused(quiet: Hosted) -> None:
    digest = quiet.shelf.put(quiet.cloud.account, "fs-abc", "i", media_type="application/vnd.oci.image.index.v1+json")
    with pytest.raises(ClientError, match="Unsupported manifest media type"):
        quiet.model(Image=f"{quiet.image.split('@')[0]}@{digest}")


@pytest.mark.parametrize(
    ("over", "text"),
    [
        ({"ContainerStartupHealthCheckTimeoutInSeconds": 59}, "valid min value: 60"),
        ({"ModelDataDownloadTimeoutInSeconds": 3601}, "less than or equal to 3600"),
        ({"InstanceType": "ml.g5g.xlarge"}, "satisfy enum value set"),
        ({"InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-9"}, "satisfy enum value set"),
        ({"VariantName": "a" * 64}, "length less than or equal to 63"),
        ({"ModelName": "nobody"}, "Could not find model"),
    ],
)
def test_limits_of_a_configuration(quiet: Hosted, over: dict[str, Any], text: str) -> None:
    with pytest.raises((ClientError, ParamValidationError), match=text):
        quiet.config(**over)


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({f"K{n}": "v" for n in range(101)}, "length less than or equal to 100"),
        ({"K": "v" * 1025}, "length less than or equal to 1024"),
        ({f"K{n}": "v" * 1000 for n in range(40)}, "at most 32768"),
        ({"1K": "v"}, "regular expression pattern"),
    ],
)
def test_limits_of_an_environment(quiet: Hosted, environment: dict[str, str], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        quiet.model(Environment=environment)


def test_names_are_taken_once_and_things_are_listed(world: Hosted) -> None:
    config = world.config()
    world.create(config)
    with pytest.raises(ClientError, match="Cannot create already existing endpoint "):
        world.create(config)
    world.numbers = iter((2,))
    with pytest.raises(ClientError, match="Cannot create already existing model"):
        world.model()
    assert [e["EndpointName"] for e in world.sagemaker.list_endpoints(NameContains="fs-")["Endpoints"]] == [NAME]
    assert len(world.sagemaker.list_models()["Models"]) == 1
    assert [c["EndpointConfigName"] for c in world.sagemaker.list_endpoint_configs()["EndpointConfigs"]] == [config]


def test_tags(world: Hosted) -> None:
    tags = [{"Key": "flexserve-id", "Value": "abc"}]
    world.create(Tags=tags)
    arn = world.shown()["EndpointArn"]
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == tags
    world.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "more", "Value": "1"}])
    world.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["flexserve-id"])
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "more", "Value": "1"}]


def test_a_container_gets_the_roles_keys_and_reads_its_secret_with_them(world: Hosted) -> None:
    world.cloud.put_secret("hf-token", "hf_value")
    world.cloud.put_secret("other", "hf_other")
    secret = world.secretsmanager.describe_secret(SecretId="hf-token")["ARN"]
    statement = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": secret}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    world.iam.put_role_policy(RoleName="run", PolicyName="secret", PolicyDocument=json.dumps(document))
    world.up()
    keys = world.cluster.made[0].spec.cloud.credentials()
    client = world.client("secretsmanager", keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"])
    assert client.get_secret_value(SecretId=secret)["SecretString"] == "hf_value"
    with refused("AccessDeniedException"):
        client.get_secret_value(SecretId="other")
    world.sagemaker.delete_endpoint(EndpointName=NAME)
    world.cloud.clock.advance(60)
    with refused("UnrecognizedClientException"):
        client.get_secret_value(SecretId=secret)
