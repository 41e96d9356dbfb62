"""A flex-start request that may wait: PENDING, then RUNNING, or gone."""

import pytest

from rehearsal.cloud.google import LocalGoogleCloud, troubles
from tests.cloud.conftest import ZONE, Api, instance

VM = f"zones/{ZONE}/instances/vm"


def queued(cloud: LocalGoogleCloud, api: Api, seconds: int = 3600) -> str:
    cloud.arm(troubles.stock_out())
    body = instance(params={"requestValidForDuration": {"seconds": seconds}})
    status, operation = api("POST", f"zones/{ZONE}/instances", body)
    assert (status, operation["status"], api("GET", VM)[1]["status"]) == (200, "RUNNING", "PENDING")
    assert cloud.ledger.items() == ()  # waiting costs nothing
    return f"zones/{ZONE}/operations/{operation['name']}"


def test_capacity_comes(cloud: LocalGoogleCloud, api: Api) -> None:
    operation = queued(cloud, api)
    cloud.clock.advance(1800)
    assert api("GET", VM)[1]["status"] == "PENDING"
    cloud.give_capacity("us-east5-a")
    assert api("GET", VM)[1]["status"] == "PENDING"
    cloud.give_capacity()
    cloud.clock.advance(10)
    assert api("GET", VM)[1]["status"] == "RUNNING" and api("GET", operation)[1]["status"] == "DONE"
    cloud.clock.advance(3600)  # the wait would be over now
    assert api("GET", VM)[1]["status"] == "RUNNING"
    cloud.clock.advance(14400 - 3600)
    assert api("GET", VM)[0] == 404 and cloud.ledger.left() == ()


def test_the_wait_is_over(cloud: LocalGoogleCloud, api: Api) -> None:
    operation = queued(cloud, api, 90)
    cloud.clock.advance(91)
    finished = api("GET", operation)[1]
    assert finished["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert api("GET", VM)[0] == 404 and cloud.ledger.items() == ()
    cloud.give_capacity()
    cloud.clock.advance(60)
    assert cloud.instances() == {}


def test_deleted_while_it_waits(cloud: LocalGoogleCloud, api: Api) -> None:
    operation = queued(cloud, api)
    api.done("DELETE", VM)
    assert api("GET", operation)[1]["error"] and api("GET", VM)[0] == 404
    cloud.give_capacity()
    cloud.clock.advance(7200)
    assert cloud.instances() == {} and cloud.ledger.items() == ()


def test_now_or_never(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.arm(troubles.stock_out())
    body = instance(params={"requestValidForDuration": {"seconds": 0}})
    assert api.done("POST", f"zones/{ZONE}/instances", body)["error"]


@pytest.mark.parametrize("seconds", [1, 89, 7201])
def test_waits_that_google_does_not_take(api: Api, seconds: int) -> None:
    body = instance(params={"requestValidForDuration": {"seconds": seconds}})
    status, answer = api("POST", f"zones/{ZONE}/instances", body)
    assert status == 400 and "requestValidForDuration" in answer["error"]["message"]
