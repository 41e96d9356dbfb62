"""The program through the real engine: one stack's life, in the order in which an operator would live it.

A run of the engine takes some ten seconds, so the steps share one stack; each says what it leaves for the next.
"""

import json
import re

import pytest

from rehearsal.cloud.google import troubles
from tests.infra.workshop import STACK, workshop

HOST_IMAGES, FAMILY = "projects/ubuntu-os-accelerator-images/global/images", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
ZONES = "target.zones=[europe-west4-a, us-east5-b]"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with workshop(tmp_path_factory.mktemp("shop"), ZONES) as running:
        yield running
        assert running.cloud.own_errors() == ()


def writes(shop, since):
    return [path for _, path in shop.compute_writes(since)]


def test_a_refusal_is_the_programs_error_and_nothing_is_asked_of_the_cloud(shop):
    shop.set("target.project=your-project")
    ended = shop.up()
    shop.set(f"target.project={shop.cloud.project}")
    assert ended.failed_with("refused by rule placeholder", "still the placeholder 'your-project'")
    assert not shop.cloud.requests() and not shop.names.asked


def test_a_stock_out_leaves_the_kept_state_and_no_machine(shop):
    shop.cloud.arm(troubles.stock_out(zone="europe-west4-a"))
    ended = shop.up()
    assert ended.failed_with("does not have enough resources available")
    assert shop.instances() == []
    assert shop.kept().value("target.zones") == "europe-west4-a"


def test_the_second_try_in_another_zone_makes_one_machine_and_no_second_network(shop):
    before = shop.kept()
    ended = shop.up(FLEXSERVE_PLACE="us-east5-b")
    assert ended.succeeded()
    (vm,) = shop.instances()
    kept = shop.kept()
    assert kept.id == before.id and vm["name"] == f"fs-{kept.id}" and vm["zone"].endswith("/us-east5-b")
    outputs = shop.outputs()
    assert (outputs["zone"], outputs["id"], outputs["provisioning"]) == ("us-east5-b", kept.id, "flex_start")
    assert outputs["access"] == {
        "kind": "iap", "project": "acme-1", "zone": "us-east5-b", "instance": vm["name"], "port": 8000, "interface": "nic0",
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", outputs["expires_at"])
    status, answer = shop.cloud.request("GET", "/compute/v1/projects/acme-1/global/networks")
    assert status == 200 and sorted(n["name"] for n in answer["items"]) == ["default", f"{vm['name']}-us-east5"]


def test_a_plain_up_after_the_failover_changes_nothing_and_resolves_nothing(shop):
    asked = len(shop.names.asked)
    shop.names.status["/"] = (503, {})  # registry and Hub are down: it does not matter
    shop.names.tags["v0.27.0"] = "sha256:" + "ee" * 32  # and the tag has moved on
    since = len(shop.cloud.requests())
    ended = shop.up()
    assert ended.succeeded() and set(ended.changes()) == {"unchanged"}, ended.text
    assert writes(shop, since) == [] and len(shop.names.asked) == asked


def test_a_changed_flag_reaches_the_same_machine_and_what_would_replace_it_is_ignored_with_a_word(shop):
    (before,) = shop.instances()
    since = len(shop.cloud.requests())
    shop.set(
        "serving.text_only=true", "window=6h", "target.zones=[europe-west4-a]", "target.host_image=projects/acme-1/global/images/y"
    )
    ended = shop.up()
    assert ended.succeeded()
    assert ended.changes()["updated"] == 1 and not any(word in ended.changes() for word in ("created", "replaced", "deleted"))
    for word in ("flexserve:window stays 4h", "flexserve:target.zones stays us-east5-b", "flexserve:target.host_image stays"):
        assert word in ended.text
    assert writes(shop, since) == [f"zones/us-east5-b/instances/{before['name']}/setMetadata"]
    (after,) = shop.instances()
    script = {i["key"]: i["value"] for i in after["metadata"]["items"]}
    assert after["id"] == before["id"] and script["flexserve-script-sha256"] == shop.outputs()["script_sha256"]


def test_what_a_live_machine_cannot_take_is_refused_before_anything_is_written(shop):
    since = len(shop.cloud.requests())
    shop.set("target.machine_type=ct6e-standard-4t", "serving.text_only=false")
    ended = shop.up()
    assert ended.failed_with(
        "refused by rule live-machine-would-be-replaced", "flexserve:target.machine_type is ct6e-standard-1t on the live machine"
    )
    assert writes(shop, since) == []


def test_with_consent_the_machine_is_replaced(shop):
    (before,) = shop.instances()
    shop.cloud.disarm()
    shop.set(f"target.host_image={HOST_IMAGES}/family/{FAMILY}")
    ended = shop.up(FLEXSERVE_REPLACE="1")
    assert ended.succeeded()
    (after,) = shop.instances()
    assert after["id"] != before["id"] and after["name"] == before["name"]
    assert after["machineType"].endswith("/ct6e-standard-4t") and after["zone"].endswith("/europe-west4-a")
    assert after["scheduling"]["maxRunDuration"]["seconds"] == "21600"


def test_after_the_window_up_makes_one_machine_again(shop):
    shop.cloud.clock.advance(7 * 3600)
    assert shop.instances() == []
    started = shop.kept().started
    ended = shop.up()
    assert ended.succeeded() and ended.changes()["created"] >= 1
    (vm,) = shop.instances()
    assert int(vm["labels"]["flexserve-expires"]) == shop.kept().started + 21600 and shop.kept().started > started


def test_no_secret_value_is_in_the_state_or_in_a_request(shop):
    text = json.dumps([shop.export(), list(shop.cloud.requests())], default=str)
    assert "hf_sentinel" not in text
    assert "hf-token" in text  # its name is


def test_after_the_window_destroy_ends_well_and_leaves_nothing(shop):
    shop.cloud.clock.advance(7 * 3600)
    ended = shop.pulumi("destroy", "-s", STACK, "--yes", "--skip-preview")
    assert ended.succeeded()
    assert {item.kind for item in shop.cloud.ledger.left()} == {"secret_version"}  # the operator's own, made beforehand
    assert shop.export()["deployment"].get("resources", []) == []
