"""An instance from create to nothing left, on a clock that is turned."""

import pytest

from rehearsal.cloud.google import LocalGoogleCloud, troubles
from tests.cloud.conftest import ZONE, Api, instance, scheduling

VM = f"zones/{ZONE}/instances/vm"
DISK = f"zones/{ZONE}/disks/vm"


def test_states_on_the_way_to_running(cloud: LocalGoogleCloud, api: Api) -> None:
    status, operation = api("POST", f"zones/{ZONE}/instances", instance())
    assert (status, operation["status"]) == (200, "RUNNING")
    seen = [api("GET", VM)[1]["status"]]
    for seconds in (cloud.state.pace.provisioning, cloud.state.pace.staging):
        cloud.clock.sleep(seconds)
        seen.append(api("GET", VM)[1]["status"])
    assert seen == ["PROVISIONING", "STAGING", "RUNNING"]
    finished = api("GET", f"zones/{ZONE}/operations/{operation['name']}")[1]
    assert finished["status"] == "DONE" and finished["zone"].endswith(ZONE) and "error" not in finished
    assert finished["targetId"] == api("GET", VM)[1]["id"]


def test_what_the_api_makes_of_the_body(api: Api) -> None:
    vm = api.create()
    assert vm["scheduling"]["maxRunDuration"] == {"seconds": "14400"}  # int64 is a JSON string
    assert "nodeAffinities" not in vm["scheduling"] and "params" not in vm
    assert vm["disks"][0]["source"].endswith(DISK)
    disk = api("GET", DISK)[1]
    assert (disk["sizeGb"], disk["type"].rsplit("/", 1)[-1]) == ("200", "hyperdisk-balanced")
    assert disk["sourceImage"].endswith("-v20261116")  # the newest of the family
    assert vm["resourceStatus"]["scheduling"]["terminationTimestamp"] > vm["lastStartTimestamp"]


def test_the_window_closes_and_nothing_is_left(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    assert {item.kind for item in cloud.ledger.left()} == {"instance", "disk", "address"}
    cloud.clock.advance(14400)
    assert cloud.ledger.left() == ()
    assert api("GET", VM)[0] == api("GET", DISK)[0] == 404
    assert 4.0 <= cloud.ledger.total() < 4.1  # an hour of it costs a dollar here
    kinds = [o["operationType"] for o in api("GET", f"zones/{ZONE}/operations")[1]["items"]]
    assert kinds == ["insert", "compute.instances.delete"]


def test_just_before_the_window_closes_it_still_runs(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    cloud.clock.advance(14000)
    assert api("GET", VM)[1]["status"] == "RUNNING"


def test_the_window_of_a_deleted_instance_does_not_hit_its_successor(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    api.done("DELETE", VM)
    cloud.clock.advance(10000)
    api.create()
    cloud.clock.advance(10000)
    assert api("GET", VM)[1]["status"] == "RUNNING"


def test_delete(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    assert api("DELETE", VM)[1]["operationType"] == "delete"
    assert api("GET", VM)[1]["status"] == "STOPPING"
    cloud.clock.advance(10)
    assert cloud.ledger.left() == () and api("GET", VM)[0] == 404
    status, body = api("DELETE", VM)
    assert (status, body["error"]["message"]) == (404, f"The resource 'projects/demo/{VM}' was not found")


def test_a_disk_without_auto_delete_stays_on_the_bill(cloud: LocalGoogleCloud, api: Api) -> None:
    body = instance()
    body["disks"][0]["autoDelete"] = False
    api.done("POST", f"zones/{ZONE}/instances", body)
    api.done("DELETE", VM)
    assert [(i.kind, i.name) for i in cloud.ledger.left()] == [("disk", "vm")]
    api.done("DELETE", DISK)
    assert cloud.ledger.left() == ()


def test_a_planted_disk_is_seen(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    cloud.put_disk("left-over", ZONE)
    api.done("DELETE", VM)
    assert [(i.kind, i.name, dict(i.labels)) for i in cloud.ledger.left()] == [("disk", "left-over", {})]


def test_no_access_config_no_address(cloud: LocalGoogleCloud, api: Api) -> None:
    vm = api.create(networkInterfaces=[{"network": "global/networks/default"}])
    assert "accessConfigs" not in vm["networkInterfaces"][0]
    assert "address" not in {item.kind for item in cloud.ledger.items()}


def test_boot_disk_is_10_gb_hyperdisk_by_default(api: Api) -> None:
    api.create(
        disks=[
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
            }
        ]
    )
    disk = api("GET", DISK)[1]
    assert (disk["sizeGb"], disk["type"].rsplit("/", 1)[-1]) == ("10", "hyperdisk-balanced")


@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"maxRunDuration": "absent"}, "maxRunDuration"),
        ({"maxRunDuration": {"seconds": 599}}, "maxRunDuration"),
        ({"maxRunDuration": {"seconds": 604801}}, "maxRunDuration"),
        ({"automaticRestart": True}, "automaticRestart"),
        ({"automaticRestart": "absent"}, "automaticRestart"),
        ({"instanceTerminationAction": "STOP"}, "instanceTerminationAction"),
        ({"instanceTerminationAction": "absent"}, "instanceTerminationAction"),
        ({"onHostMaintenance": "MIGRATE"}, "onHostMaintenance"),
    ],
)
def test_flex_start_rules(cloud: LocalGoogleCloud, api: Api, over: dict[str, object], field: str) -> None:
    status, body = api("POST", f"zones/{ZONE}/instances", instance(scheduling=scheduling(**over)))
    assert status == 400
    assert body["error"]["message"].startswith(f"Invalid value for field 'resource.scheduling.{field}'")
    assert cloud.instances() == {} and cloud.ledger.items() == ()


@pytest.mark.parametrize("details", [False, True])
def test_stock_out_leaves_nothing_but_the_operation(cloud: LocalGoogleCloud, api: Api, details: bool) -> None:
    cloud.arm(troubles.stock_out(details=details))
    finished = api.done("POST", f"zones/{ZONE}/instances", instance())
    failure = finished["error"]["errors"][0]
    assert failure["code"].startswith("ZONE_RESOURCE_POOL_EXHAUSTED") and f"zones/{ZONE}" in failure["message"]
    assert cloud.instances() == {} and cloud.ledger.items() == ()


def test_stock_out_in_one_zone_only(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.arm(troubles.stock_out(zone="us-east5-a"))
    assert api.create()["status"] == "RUNNING"


def test_taken_back_while_serving(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    cloud.reclaim("vm")
    assert api("GET", VM)[0] == 404 and cloud.ledger.left() == ()
    assert api("GET", f"zones/{ZONE}/operations")[1]["items"][-1]["operationType"] == "compute.instances.preempted"
