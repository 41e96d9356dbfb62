"""The spot stack through the real engine: one stack's life, in the order in which an operator would live it."""

import json
from typing import cast

import pytest

from infra.deployment import from_stack_file
from infra.state import from_export
from infra.targets.ec2_spot.build import build_key
from infra.targets.ec2_spot.config import Config
from infra.targets.ec2_spot.live import Live, Session
from infra.targets.protocol import DeploymentRef
from rehearsal.cloud.aws import troubles
from rehearsal.machine import builds
from tests.infra.aws_workshop import STACK, aws_workshop

ZONES = "target.zones=[us-east-1a, us-east-1b]"
HOUR, WINDOW_S = 3600, 4 * 3600


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with aws_workshop(tmp_path_factory.mktemp("shop"), ZONES, off=-HOUR) as running:
        yield running
        assert running.cloud.own_errors() == ()


def keep_a_build(shop):
    """What `flexserve build` would have made: without it `up` makes nothing."""
    shop.set("target.build.where=builder")
    target = cast("Config", from_stack_file(shop.project, STACK).target)
    for name, data in builds.stand_in("7.5").files.items():
        key = f"builds/{build_key(target, '7.5')}/{name}"
        shop.cloud.call("s3", "PutObject", Bucket=shop.outputs()["bucket"], Key=key, Body=data)


def left_by_the_stock_out(shop):
    """The kept state as the update that failed left it, without a machine."""
    first, *_ = [tried for tried in shop.tries() if tried.result == "failed" and tried.kept is not None]
    assert "aws:ec2/instance:Instance" not in first.types and "aws:ec2/vpc:Vpc" in first.types
    assert first.kept.value("target.zones") == "us-east-1a"
    return first.kept


def window_from_now(shop):
    """Seconds until the schedule ends the machine, by the cloud's clock."""
    (ends,) = shop.cloud.schedules().values()
    return ends - shop.cloud.clock.now()


def test_a_machine_that_would_wait_for_a_build_is_refused_and_the_preview_before_it_goes_on(shop):
    ended = shop.pulumi("up", "-s", STACK, "--yes")
    preview, _, update = ended.text.partition("Updating (")
    assert "an update would be refused: there is no build" in preview and "+ " in preview
    assert ended.failed_with("`flexserve build -s g5g-spot` makes it") and "there is no build" in update
    told = from_export(shop.export())
    assert shop.left() == [] and (told.outputs, told.kept) == ({}, {})  # and nothing is kept of it


def test_up_asks_zone_after_zone_and_makes_one_machine(shop):
    shop.cloud.arm(troubles.no_capacity("us-east-1a", foreseen=False))
    shop.set("target.build.where=machine")  # an own bucket is made by the first run of a machine that needs no build
    code, document, said = shop.flexserve("up", "--yes", "--no-wait", "--allow", "build-too-long")
    assert code == 0, said
    assert document["zone"] == "us-east-1b"
    ((place, why),) = [(t["place"], t["why"]) for t in document["tries"]]
    assert place == "us-east-1a" and why == (
        "InsufficientInstanceCapacity: There is no Spot capacity available that matches your request."
    )
    before = left_by_the_stock_out(shop)
    (vm,) = shop.machines()
    assert WINDOW_S - 120 < window_from_now(shop) <= WINDOW_S  # though this machine's clock is an hour ahead of the cloud's
    outputs = shop.outputs()
    assert (outputs["zone"], outputs["id"], outputs["provisioning"]) == ("us-east-1b", before.id, "spot")
    assert outputs["access"] == {"kind": "ssm", "region": "us-east-1", "instance_id": vm, "port": 8000}
    assert shop.cloud.call("ec2", "DescribeSubnets", Filters=[{"Name": "tag:flexserve-id", "Values": [before.id]}])["Subnets"]
    groups = shop.cloud.call("ec2", "DescribeSecurityGroups", Filters=[{"Name": "tag:flexserve-id", "Values": [before.id]}])
    assert [group["IpPermissions"] for group in groups["SecurityGroups"]] == [[]]


def test_with_consent_the_machine_is_replaced_as_the_stack_file_says_by_now(shop):
    shop.cloud.disarm()
    keep_a_build(shop)
    (before,) = shop.machines()
    script = shop.outputs()["script_sha256"]
    shop.set("target.machine_type=g5g.2xlarge", "serving.text_only=true", "window=6h", "target.zones=[us-east-1d]")
    assert shop.up(FLEXSERVE_REPLACE="1").succeeded()
    (after,) = shop.machines()
    outputs = shop.outputs()
    assert after != before and (outputs["machine_type"], outputs["zone"]) == ("g5g.2xlarge", "us-east-1d")
    assert outputs["script_sha256"] != script
    assert b'{"image":0,"audio":0}' in shop.cloud.stored(outputs["bucket"])[f"{outputs['id']}/script"]
    assert WINDOW_S + 2 * HOUR - 120 < window_from_now(shop) <= WINDOW_S + 2 * HOUR


def test_no_secret_value_is_in_the_state_or_in_a_request(shop):
    text = json.dumps([shop.export(), [r for r in shop.cloud.requests() if "secretsmanager" not in str(r)]], default=str)
    assert "hf_sentinel" not in text and "hf-token" in text


def test_destroy_leaves_the_bucket_for_its_builds_and_the_sweep_takes_an_empty_one(shop, monkeypatch):
    ref = DeploymentRef(STACK, shop.kept().id)
    assert shop.pulumi("destroy", "-s", STACK, "--yes", "--skip-preview").succeeded()
    for name, value in shop.cloud.environment().items():
        monkeypatch.setenv(name, value)
    session = Session("us-east-1", sleep=shop.cloud.clock.sleep)
    live = Live(session)
    shop.cloud.clock.advance(60)
    (bucket,) = live.inventory(ref)
    assert bucket.kind == "bucket" and "kept builds" in bucket.kept
    for key in shop.cloud.stored(bucket.name):
        session.call("s3", "delete_object", Bucket=bucket.name, Key=key)
    things = live.inventory(ref)
    assert [(thing.kind, thing.kept) for thing in things] == [("bucket", "")]
    for thing in things:
        live.delete(thing)
    assert live.inventory(ref) == [] and shop.left() == []
