"""What is wrong with a request is said, and what the local cloud lacks is called missing."""

from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rehearsal.cloud.aws import OPERATOR, LocalAwsCloud, troubles
from rehearsal.cloud.aws.cloud import OwnError
from rehearsal.cloud.aws.named import NAMED
from tests.cloud_aws.conftest import World, refused


def send(
    world: World, service: str, body: bytes, *, method: str = "POST", path: str = "/", region: str = "us-east-1", **headers: str
) -> Any:
    """A request that no client would make, signed by the operator."""
    host = f"{service}.{region}.amazonaws.com"
    made = AWSRequest(method, f"http://{host}{path}", {k.replace("_", "-"): v for k, v in headers.items()}, body)
    kind = S3SigV4Auth if service == "s3" else SigV4Auth
    kind(Credentials(OPERATOR.key_id, OPERATOR.secret), service, region).add_auth(made)
    return world.cloud.request(method, path, {"Host": host, **dict(made.headers.items())}, body)


FORM = "application/x-www-form-urlencoded"
JSON = "application/x-amz-json-1.1"


def test_unknown_parameters_are_refused(world: World) -> None:
    form = urlencode({"Action": "DescribeInstances", "Version": "2016-11-15", "Colour": "red"}).encode()
    answer = send(world, "ec2", form, Content_Type=FORM)
    assert answer.status == 400 and b"UnknownParameter" in answer.body and b"Colour" in answer.body
    answer = send(world, "ssm", b'{"Name": "x", "Colour": "red"}', Content_Type=JSON, X_Amz_Target="AmazonSSM.GetParameter")
    assert answer.status == 400 and b"Colour" in answer.body
    answer = send(
        world,
        "scheduler",
        b'{"FlexibleTimeWindow": {"Mode": "OFF", "Colour": 1}}',
        path="/schedules/x",
        Content_Type="application/json",
    )
    assert answer.status == 400 and b"Colour" in answer.body
    assert [len(entry["complaints"]) > 0 for entry in world.cloud.requests()] == [True, True, True]  # type: ignore[arg-type]


def test_missing_parameters_and_wrong_values_are_refused(world: World) -> None:
    answer = send(world, "ssm", b"{}", Content_Type=JSON, X_Amz_Target="AmazonSSM.GetParameter")
    assert answer.status == 400 and b"Name" in answer.body
    answer = send(world, "ec2", b"Action=RunInstances&Version=2016-11-15&MinCount=one&MaxCount=1", Content_Type=FORM)
    assert answer.status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"Name": 7}'])
def test_garbage_is_refused(world: World, body: bytes) -> None:
    answer = send(world, "ssm", body, Content_Type=JSON, X_Amz_Target="AmazonSSM.GetParameter")
    assert answer.status == 400


def test_an_unknown_operation(world: World) -> None:
    assert b"InvalidAction" in send(world, "ec2", b"Action=MakeCoffee&Version=2016-11-15", Content_Type=FORM).body
    assert send(world, "ssm", b"{}", Content_Type=JSON, X_Amz_Target="AmazonSSM.MakeCoffee").status == 400


def test_what_is_not_here_is_called_missing(world: World) -> None:
    assert send(world, "dynamodb", b"{}", Content_Type=JSON).status == 501
    answer = send(world, "ec2", b"Action=DescribeVpcs&Version=2016-11-15", region="eu-west-1", Content_Type=FORM)
    assert answer.status == 501 and b"eu-west-1" in answer.body
    with refused("NotImplemented"):
        world.ec2.create_fleet(
            LaunchTemplateConfigs=[{"Overrides": [{"InstanceType": "g5g.xlarge"}]}],
            TargetCapacitySpecification={"TotalTargetCapacity": 1},
        )
    with refused("NotImplemented"):
        world.ec2.describe_import_image_tasks()


def test_s3_with_strange_keys(world: World) -> None:
    world.s3.create_bucket(Bucket="flexserve-x")
    for key in ("a b/ä+ü", "x//y", "%41", "q?r=s", "~-_.'()*"):
        world.s3.put_object(Bucket="flexserve-x", Key=key, Body=key.encode())
        assert world.s3.get_object(Bucket="flexserve-x", Key=key)["Body"].read() == key.encode()


def test_troubles_are_spent_in_order(world: World) -> None:
    world.cloud.arm(troubles.throttled(times=1))
    world.cloud.arm(troubles.unavailable(times=1))
    with refused("RequestLimitExceeded"):
        world.run()
    with refused("Unavailable"):
        world.run()
    assert world.run()


def test_troubles_of_other_services(world: World) -> None:
    world.cloud.arm(troubles.throttled("ssm.*"))
    with refused("ThrottlingException"):
        world.ssm.describe_instance_information()
    world.cloud.disarm()
    world.cloud.arm(troubles.unavailable("s3.PutObject"))
    world.s3.create_bucket(Bucket="flexserve-x")
    with refused("ServiceUnavailable"):
        world.s3.put_object(Bucket="flexserve-x", Key="k", Body=b"")


def test_delete_fails_once(world: World) -> None:
    vm = world.running()
    world.cloud.arm(troubles.delete_fails())
    with refused("OperationNotPermitted"):
        world.ec2.terminate_instances(InstanceIds=[vm])
    assert world.state(vm) == "running"
    world.ec2.terminate_instances(InstanceIds=[vm])


def test_an_instance_that_is_not_seen_at_once(world: World) -> None:
    world.cloud.arm(troubles.unseen())
    vm = world.run()
    with refused("InvalidInstanceID.NotFound"):
        world.state(vm)
    assert world.state(vm) in ("pending", "running")  # by the clock; seen at the second look


EXPECTED = {
    "no-capacity": "InsufficientInstanceCapacity",
    "no-capacity-once": "InsufficientInstanceCapacity",
    "zone-lacks-type": "Unsupported",
    "quota-0": "MaxSpotInstanceCountExceeded",
    "price-too-low": "SpotMaxPriceTooLow",
    "no-permission": "UnauthorizedOperation",
    "unavailable": "Unavailable",
    "throttled": "RequestLimitExceeded",
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_named_trouble_can_be_armed(world: World, name: str) -> None:
    world.cloud.put_secret("hf-token", "x")
    NAMED[name].arm(world.cloud)
    market = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.4"}}
    here = {"Placement": {"AvailabilityZone": "us-east-1a"}, "InstanceMarketOptions": market}
    if name in EXPECTED:
        with refused(EXPECTED[name]):
            world.run(**here)
    else:
        assert world.run(**here)


def test_a_machine_that_does_not_start_is_said() -> None:
    def broken(spec: Any) -> Any:
        raise OSError("no loop device left")

    with pytest.raises(OwnError, match="no loop device left"), LocalAwsCloud(broken) as cloud:
        World(cloud, []).run()
        cloud.clock.advance(10)


def test_an_instance_that_goes_while_its_machine_is_made() -> None:
    from tests.cloud_aws.conftest import FakeMachine

    made: list[FakeMachine] = []

    def slow(spec: Any) -> FakeMachine:
        world.ec2.terminate_instances(InstanceIds=[spec.name])
        cloud.state.fleet.delete(spec.name)
        made.append(FakeMachine(spec))
        return made[-1]

    with LocalAwsCloud(slow) as cloud:
        world = World(cloud, [])
        world.run()
        cloud.clock.advance(30)
        assert made[0].did == ["delete"] and dict(cloud.machines()) == {} and cloud.own_errors() == ()


def test_stop_is_safe_twice_and_a_second_cloud_starts_empty() -> None:
    cloud = LocalAwsCloud()
    cloud.start()
    cloud.put_secret("hf-token", "x")
    cloud.stop()
    cloud.stop()
    with LocalAwsCloud() as second:
        assert second.secret_names() == () and second.ledger.items() == ()


def test_another_region_and_account_beside_it(world: World) -> None:
    with LocalAwsCloud(region="eu-central-1", account="210987654321") as other:
        there = World(other, [])
        found = there.ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["g5g.xlarge"]}]
        )
        assert [row["Location"] for row in found["InstanceTypeOfferings"]] == ["eu-central-1c"]
        assert there.run() and there.sts.get_caller_identity()["Account"] == "210987654321"
        assert world.cloud.instances() == {} and world.run()
