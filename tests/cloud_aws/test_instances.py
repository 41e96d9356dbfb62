"""An instance from RunInstances to nothing: states on the clock, its machine, its spot request, the bill."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rehearsal.cloud.aws import troubles
from tests.cloud_aws.conftest import IMAGE, World, refused


def test_pending_then_running_then_gone_with_its_machine(world: World) -> None:
    vm = world.run()
    assert world.state(vm) == "pending" and world.made == []
    world.cloud.clock.advance(10)
    machine = world.made[0]
    assert world.state(vm) == "running" and machine.did == ["start"] and dict(world.cloud.machines()) == {vm: machine}
    assert (machine.spec.name, machine.spec.disk_gb, machine.spec.flavour, machine.spec.egress) == (vm, 60, "ec2", True)
    world.ec2.terminate_instances(InstanceIds=[vm])
    assert world.state(vm) == "shutting-down" and machine.did == ["start"]
    world.cloud.clock.advance(10)
    assert world.state(vm) == "terminated" and machine.did == ["start", "delete"]
    world.ec2.terminate_instances(InstanceIds=[vm])  # already gone is no error
    world.cloud.clock.advance(3601)
    with refused("InvalidInstanceID.NotFound"):
        world.ec2.terminate_instances(InstanceIds=[vm])


def test_the_bill_is_from_running_to_shutting_down_and_the_disk_longer(world: World) -> None:
    vm = world.run()
    assert world.left() == ["volume", "address"]
    world.cloud.clock.advance(10)
    assert sorted(world.left()) == ["address", "instance", "volume"]
    world.cloud.clock.advance(3600)
    assert 0.155 < world.cloud.ledger.total() < 0.157
    world.ec2.terminate_instances(InstanceIds=[vm])
    assert world.left() == ["volume"]
    world.cloud.clock.advance(10)
    assert world.left() == []


def test_a_spot_request_has_a_life_of_its_own(world: World) -> None:
    vm = world.running()
    row = world.ec2.describe_instances(InstanceIds=[vm])["Reservations"][0]["Instances"][0]
    assert row["InstanceLifecycle"] == "spot"

    def request() -> Any:
        ids = [row["SpotInstanceRequestId"]]
        return world.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=ids)["SpotInstanceRequests"][0]

    assert (request()["State"], request()["Status"]["Code"], request()["InstanceId"]) == ("active", "fulfilled", vm)
    world.ec2.terminate_instances(InstanceIds=[vm])
    assert (request()["State"], request()["Status"]["Code"]) == ("closed", "instance-terminated-by-user")
    filters = [{"Name": "state", "Values": ["open", "active"]}]
    assert world.ec2.describe_spot_instance_requests(Filters=filters)["SpotInstanceRequests"] == []


def test_a_shutdown_inside_terminates_where_that_is_asked_for(world: World) -> None:
    vm = world.running(spot=False, InstanceInitiatedShutdownBehavior="terminate")
    world.made[0].guest.powered_off()
    world.cloud.clock.advance(10)
    row = world.ec2.describe_instances(InstanceIds=[vm])["Reservations"][0]["Instances"][0]
    assert row["State"]["Name"] == "terminated" and row["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert world.left() == []


def test_a_shutdown_inside_stops_by_default_and_the_disk_bills_on(world: World) -> None:
    vm = world.running(spot=False)
    world.made[0].guest.powered_off()
    world.cloud.clock.advance(10)
    assert world.state(vm) == "stopped" and world.left() == ["volume"]
    world.ec2.start_instances(InstanceIds=[vm])
    world.cloud.clock.advance(10)
    assert world.state(vm) == "running" and world.made[0].did == ["start", "power_cut", "start"]


def test_reclaimed_with_notice(world: World) -> None:
    vm = world.running()
    guest = world.made[0].guest

    def meta() -> Any:
        return guest.metadata()["meta-data"]

    assert "spot" not in meta() and "events" not in meta()
    world.cloud.reclaim(vm)
    action = json.loads(meta()["spot"]["instance-action"])
    assert action["action"] == "terminate" and "noticeTime" in meta()["events"]["recommendations"]["rebalance"]
    world.cloud.clock.advance(110)
    assert world.state(vm) == "running"
    world.cloud.clock.advance(15)
    row = world.ec2.describe_instances(InstanceIds=[vm])["Reservations"][0]["Instances"][0]
    assert row["State"]["Name"] == "terminated" and row["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    request = world.ec2.describe_spot_instance_requests()["SpotInstanceRequests"][0]
    assert request["Status"]["Code"] == "instance-terminated-no-capacity" and world.left() == []


def test_only_a_spot_instance_is_reclaimed(world: World) -> None:
    with pytest.raises(ValueError, match="no spot instance"):
        world.cloud.reclaim(world.running(spot=False))


def test_a_request_ends_while_the_notice_runs(world: World) -> None:
    vm = world.running()
    world.cloud.reclaim(vm)
    world.ec2.terminate_instances(InstanceIds=[vm])
    world.cloud.clock.advance(200)
    row = world.ec2.describe_instances(InstanceIds=[vm])["Reservations"][0]["Instances"][0]
    assert row["StateReason"]["Code"] == "Client.UserInitiatedShutdown"


def test_many_at_once(world: World) -> None:
    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(lambda _: world.run(), range(6)))
        world.cloud.clock.advance(10)
        assert all(pool.map(lambda i: world.state(i) == "running", ids))
        list(pool.map(lambda i: world.ec2.terminate_instances(InstanceIds=[i]), ids))
    world.cloud.clock.advance(10)
    assert len(set(ids)) == 6 and world.left() == [] and len(world.made) == 6


def test_what_the_machine_sees(world: World) -> None:
    script = "#!/bin/bash\necho hallo ä\n"
    world.running(UserData=script, IamInstanceProfile={"Name": world.profile("vm")})
    guest = world.made[0].guest
    tree: Any = guest.metadata()
    assert guest.user_data() == script.encode()
    assert tree["meta-data"]["instance-type"] == "g5g.xlarge" and tree["meta-data"]["placement"]["region"] == "us-east-1"
    assert list(tree["meta-data"]["iam"]["security-credentials"]) == ["vm"]
    assert json.loads(tree["dynamic"]["instance-identity"]["document"])["imageId"] == IMAGE
    assert set(map(type, _leaves(tree))) == {str}


def _leaves(node: object) -> list[object]:
    return [leaf for value in node.values() for leaf in _leaves(value)] if isinstance(node, dict) else [node]


def test_without_a_profile_there_are_no_keys(world: World) -> None:
    vm = world.running()
    assert "iam" not in world.cloud.guest(vm).metadata()["meta-data"]  # type: ignore[operator]


def test_the_same_token_runs_one_instance(world: World) -> None:
    first = world.run(ClientToken="one")
    assert world.run(ClientToken="one") == first and len(world.cloud.instances()) == 1
    with refused("IdempotentParameterMismatch"):
        world.run(ClientToken="one", InstanceType="g5g.2xlarge")


def test_the_root_volume_is_as_asked_and_goes_with_the_instance(world: World) -> None:
    ebs = {"VolumeSize": 100, "VolumeType": "gp3", "Iops": 6000, "Throughput": 500, "DeleteOnTermination": True, "Encrypted": True}
    vm = world.running(BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": ebs}])
    (volume,) = world.ec2.describe_volumes()["Volumes"]
    assert (volume["Size"], volume["Iops"], volume["Throughput"], volume["Encrypted"]) == (100, 6000, 500, True)
    world.ec2.terminate_instances(InstanceIds=[vm])
    world.cloud.clock.advance(10)
    assert world.ec2.describe_volumes()["Volumes"] == [] and world.ec2.describe_network_interfaces()["NetworkInterfaces"] == []


def test_the_console(world: World) -> None:
    vm = world.running()
    assert "Linux version" in world.ec2.get_console_output(InstanceId=vm)["Output"]


def test_user_data_of_a_running_instance_cannot_change(world: World) -> None:
    vm = world.running()
    with refused("IncorrectInstanceState"):
        world.ec2.modify_instance_attribute(InstanceId=vm, UserData={"Value": b"x"})


SPOT = {"MarketType": "spot"}
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("16,385 bytes of user data", "InvalidParameterValue", {"UserData": "x" * 16385}),
    ("an x86 image", "InvalidParameterValue", {"ImageId": "ami-0f5e1e5e000000003"}),
    ("an unknown image", "InvalidAMIID.NotFound", {"ImageId": "ami-0000000000000dead"}),
    ("an unknown type", "InvalidParameterValue", {"InstanceType": "g5g.tiny"}),
    ("an unknown profile", "InvalidParameterValue", {"IamInstanceProfile": {"Name": "nobody"}}),
    ("a zone without the type", "Unsupported", {"Placement": {"AvailabilityZone": "us-east-1f"}}),
    ("a price too low", "SpotMaxPriceTooLow", {"InstanceMarketOptions": SPOT | {"SpotOptions": {"MaxPrice": "0.01"}}}),
    (
        "stop for a one-time request",
        "InvalidParameterCombination",
        {"InstanceMarketOptions": SPOT | {"SpotOptions": {"InstanceInterruptionBehavior": "stop"}}},
    ),
    (
        "a disk smaller than the image",
        "InvalidBlockDeviceMapping",
        {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 20}}]},
    ),
    ("an unknown subnet", "InvalidSubnetID.NotFound", {"SubnetId": "subnet-0123456789abcdef0"}),
    ("a trial", "DryRunOperation", {"DryRun": True}),
]


@pytest.mark.parametrize(("code", "over"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(world: World, code: str, over: dict[str, Any]) -> None:
    with refused(code):
        world.run(**over)
    assert world.cloud.instances() == {} and world.left() == []


def test_16384_bytes_of_user_data_are_taken(world: World) -> None:
    assert world.run(UserData="x" * 16384)


def test_a_spot_instance_cannot_be_stopped(world: World) -> None:
    vm = world.running()
    with refused("UnsupportedOperation"):
        world.ec2.stop_instances(InstanceIds=[vm])


@pytest.mark.parametrize(
    ("spot", "quota", "code"), [(True, "L-3819A6DF", "MaxSpotInstanceCountExceeded"), (False, "L-DB2E81BA", "VcpuLimitExceeded")]
)
def test_quotas_count_vcpus(world: World, spot: bool, quota: str, code: str) -> None:
    world.cloud.set_quota(quota, 4)
    assert world.service_quotas.get_service_quota(ServiceCode="ec2", QuotaCode=quota)["Quota"]["Value"] == 4
    world.run(spot=spot)
    with refused(code):
        world.run(spot=spot)
    assert world.run(spot=not spot)


def test_a_stock_out_of_one_zone(world: World) -> None:
    world.cloud.arm(troubles.no_capacity("us-east-1a"))
    with refused("InsufficientInstanceCapacity"):
        world.run(Placement={"AvailabilityZone": "us-east-1a"})
    assert world.run(Placement={"AvailabilityZone": "us-east-1b"})
    scores = world.ec2.get_spot_placement_scores(
        TargetCapacity=1, InstanceTypes=["g5g.xlarge"], RegionNames=["us-east-1"], SingleAvailabilityZone=True
    )
    assert sorted(row["Score"] for row in scores["SpotPlacementScores"]) == [1, 3, 3, 9, 9, 9]
    world.cloud.give_capacity("us-east-1a")
    assert world.run(Placement={"AvailabilityZone": "us-east-1a"})


def test_prices_and_offers(world: World) -> None:
    history = world.ec2.describe_spot_price_history(InstanceTypes=["g5g.xlarge"], ProductDescriptions=["Linux/UNIX"])[
        "SpotPriceHistory"
    ]
    assert {(row["AvailabilityZone"], float(row["SpotPrice"])) for row in history} == {(f"us-east-1{z}", 0.15) for z in "abcd"}
    filters = [{"Name": "instance-type", "Values": ["g5g.xlarge"]}]

    def zones() -> list[str]:
        found = world.ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=filters)
        return sorted(row["Location"] for row in found["InstanceTypeOfferings"])

    assert zones() == [f"us-east-1{z}" for z in "abcd"]
    world.cloud.take_type("us-east-1a", "g5g.xlarge")
    assert zones() == [f"us-east-1{z}" for z in "bcd"]
    with refused("Unsupported"):
        world.run(Placement={"AvailabilityZone": "us-east-1a"})


def test_the_legacy_calls_for_spot_are_not_there(world: World) -> None:
    with refused("NotImplemented"):
        world.ec2.request_spot_instances(InstanceCount=1)


def test_user_data_comes_back(world: World) -> None:
    vm = world.run(UserData="#!/bin/sh\n")
    found = world.ec2.describe_instance_attribute(InstanceId=vm, Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(found) == b"#!/bin/sh\n"


def test_a_resource_has_the_tags_that_moto_finds_for_it(world: World) -> None:
    tags = [
        {"ResourceType": kind, "Tags": [{"Key": "a", "Value": kind}, {"Key": "b*", "Value": ""}]} for kind in ("instance", "volume")
    ]
    one, _ = world.run(TagSpecifications=tags), world.run()
    ec2 = world.cloud.state.ec2
    things = [*ec2.volumes.values(), *(i for r in ec2.reservations.values() for i in r.instances)]
    for thing in things:
        assert thing.get_tags() == ec2.describe_tags(filters={"resource-id": [thing.id]})
    assert [len(thing.get_tags()) for thing in things if thing.id == one] == [2] and len(things) == 4
