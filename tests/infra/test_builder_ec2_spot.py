"""The builder of ec2_spot against the local AWS, over HTTP and through boto3: what is made, with which rights, and gone again."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.loader import Catalog
from flexserve.lifecycle.down import sweep
from infra.clouds.aws.session import Session
from infra.plan import Plan, make_plan
from infra.targets.ec2_spot import builder as module
from infra.targets.ec2_spot import rights
from infra.targets.ec2_spot.builder import Builder, BuilderLive, connect, left_of
from infra.targets.protocol import DeploymentRef
from rehearsal.cloud.aws import LocalAwsCloud, Pace, policies, troubles
from rehearsal.machine import builds
from tests.infra.ec2_scene import Quiet
from verdict.errors import BadConfig, NoAccess, NoCapacity

FOLDERS: list[Path] = []
STANDARD_SPOT = "L-34B43A08"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    cloud = LocalAwsCloud(lambda spec: Quiet(spec, FOLDERS[-1]), pace=Pace(iam=0))
    with cloud:
        yield cloud


@pytest.fixture
def cloud(running, tmp_path, monkeypatch):
    FOLDERS.append(tmp_path)
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield running
    running.disarm()
    running.state.denied.clear()
    running.set_quota(STANDARD_SPOT, 256)
    running.delay_iam(0)


@pytest.fixture
def session(cloud, kept_session=[]):  # noqa: B006 (one for all: a client takes a second to make)
    if not kept_session:
        kept_session.append(Session(cloud.region, sleep=cloud.clock.sleep))
    return kept_session[0]


@pytest.fixture
def owner() -> str:
    """Another one for each test: one account serves them all."""
    return f"me-{secrets.token_hex(4)}"


@pytest.fixture
def made(session, g5g_spot, owner) -> Callable[..., Builder]:
    def builder(*sets: str, outputs: dict[str, object] | None = None) -> Builder:
        plan: Plan = make_plan(g5g_spot(*sets), Catalog.load())
        return connect(plan, outputs or {}, owner, session)

    return builder


def begun(builder: Builder, cloud: LocalAwsCloud, id_: str = "") -> tuple[DeploymentRef, BuilderLive, list[str]]:
    ref, said = builder.ref(id_ or secrets.token_hex(5)), []
    builder.begin(ref, said.append)
    cloud.clock.advance(5)
    return ref, builder.live(ref), said


def keep(cloud: LocalAwsCloud, bucket: str, key: str) -> None:
    for name, data in builds.stand_in().files.items():
        cloud.call("s3", "PutObject", Bucket=bucket, Key=f"builds/{key}/{name}", Body=data)


def instance(cloud: LocalAwsCloud, ref: DeploymentRef) -> dict[str, object]:
    wanted = [{"Name": "tag:flexserve-id", "Values": [ref.id]}]
    (found,) = cloud.call("ec2", "DescribeInstances", Filters=wanted)["Reservations"]
    return found["Instances"][0]


def test_what_is_made_and_that_nothing_is_left_but_a_bucket_with_builds(cloud, made):
    builder = made()
    assert builder.kept() is None and builder.find() is None
    ref, live, said = begun(builder, cloud)
    kinds = {thing.kind for thing in live.inventory(ref)}
    assert kinds == {
        *("schedule", "instance", "spot-request", "volume", "security-group", "subnet", "route-table", "internet-gateway"),
        *("network", "object", "bucket", "instance-profile", "role"),
    }
    assert said == ["asks for m7g.8xlarge, spot, in us-east-1a"]
    bucket = str(ref.outputs["bucket"])
    assert bucket == f"fs-{ref.id}" and builder.find().id == ref.id
    keep(cloud, bucket, builder.key)
    swept, kept, left = sweep(live, ref, purge=False, say=lambda _: None)
    assert left == () and [thing.name for thing in kept] == [bucket] and {t.kind for t in swept} == kinds - {"bucket"}
    found = made().kept()  # the next command finds it by stack and owner
    assert found is not None and found.place == f"s3://{bucket}/builds/{builder.key}/" and found.manifest["arch_list"] == ["sm_75"]
    assert sweep(live, ref, purge=True, say=lambda _: None)[1:] == ((), ())


def test_the_machine_is_closed_bounded_and_ends_by_itself(cloud, made):
    builder = made()
    ref, live, _ = begun(builder, cloud)
    machine = instance(cloud, ref)
    assert machine["InstanceType"] == "m7g.8xlarge" and machine["InstanceLifecycle"] == "spot"
    assert machine["MetadataOptions"]["HttpTokens"] == "required"
    tags = {t["Key"]: t["Value"] for t in machine["Tags"]}
    assert {"app", "flexserve-id", "flexserve-owner", "flexserve-stack", "flexserve-expires"} <= set(tags)
    assert tags["flexserve-purpose"] == "builder" and tags["flexserve-build"] == builder.key
    attribute = cloud.call("ec2", "DescribeInstanceAttribute", InstanceId=machine["InstanceId"], Attribute="userData")
    stub = base64.b64decode(attribute["UserData"]["Value"]).decode()
    assert f"DEADLINE={tags['flexserve-expires']}" in stub and len(stub) < 16_384
    (group,) = machine["NetworkInterfaces"][0]["Groups"]
    (found,) = cloud.call("ec2", "DescribeSecurityGroups", GroupIds=[group["GroupId"]])["SecurityGroups"]
    assert found["IpPermissions"] == []
    (volume,) = [t for t in live.inventory(ref) if t.kind == "volume"]
    assert cloud.call("ec2", "DescribeVolumes", VolumeIds=[volume.name])["Volumes"][0]["Encrypted"] is True
    name = f"fs-{ref.id}"
    ends = cloud.schedules()[name]
    assert ends == int(tags["flexserve-expires"])
    cloud.clock.advance(ends - cloud.clock.now() + 10)
    assert live.find(ref) is None and name not in cloud.schedules()  # the clock outside has ended it, and itself


def test_its_rights_are_its_script_one_build_and_its_report():
    documents = [json.loads(rights.builder("b", "id", "key", own_bucket=False))]

    def may(action: str, key: str) -> bool:
        return policies.allowed(documents, action, f"arn:aws:s3:::b/{key}")

    assert may("s3:GetObject", "id/script") and may("s3:PutObject", "builds/key/manifest.json") and may("s3:PutObject", "id/report")
    assert may("s3:DeleteObject", "builds/key/probe")
    assert not may("s3:PutObject", "builds/other/manifest.json") and not may("s3:PutObject", "id/script")
    assert not may("s3:DeleteObject", "builds/key/manifest.json") and not may("s3:GetObject", "other/script")


def test_zones_are_asked_in_order_then_the_usual_price(cloud, made):
    cloud.arm(troubles.no_capacity("us-east-1a"))
    ref, live, said = begun(made(), cloud)
    assert [line.split(" in ")[-1] for line in said if line.startswith("asks")] == ["us-east-1a", "us-east-1b"]
    cloud.disarm()
    cloud.arm(troubles.no_capacity())
    builder = made()
    ref = builder.ref(secrets.token_hex(5))
    with pytest.raises(NoCapacity) as error:
        builder.begin(ref, lambda _: None)
    assert "target.build.on_demand" in error.value.way_out
    live = builder.live(ref)
    assert not [t for t in live.inventory(ref) if t.kind == "instance"]
    assert sweep(live, ref, purge=False, say=lambda _: None)[1:] == ((), ())  # an empty bucket is nothing to keep


def test_on_demand_costs_the_usual_price_and_is_not_a_request(cloud, made):
    ref, live, said = begun(made("target.build.on_demand=only"), cloud)
    assert said == ["asks for m7g.8xlarge, on demand, in us-east-1a"] and "InstanceLifecycle" not in instance(cloud, ref)
    (machine,) = [t for t in live.inventory(ref) if t.kind == "instance"]
    assert machine.price_per_hour == 1.3056


def test_a_quota_says_which_one(cloud, made):
    cloud.set_quota(STANDARD_SPOT, 16)
    builder = made()
    ref = builder.ref(secrets.token_hex(5))
    with pytest.raises(NoAccess) as error:
        builder.begin(ref, lambda _: None)
    assert STANDARD_SPOT in error.value.way_out
    assert sweep(builder.live(ref), ref, purge=False, say=lambda _: None)[2] == ()


def test_late_roles_and_profiles_are_waited_for(cloud, made):
    cloud.delay_iam(6)
    ref, _, _ = begun(made(), cloud)
    assert f"fs-{ref.id}" in cloud.schedules()


def test_a_bucket_of_the_operators_is_used_and_never_deleted(cloud, made):
    name = f"theirs-{secrets.token_hex(4)}"
    with pytest.raises(BadConfig, match="there is no bucket"):
        begun(made(f"target.bucket={name}"), cloud)
    cloud.call("s3", "CreateBucket", Bucket=name)
    builder = made(f"target.bucket={name}")
    ref, live, _ = begun(builder, cloud)
    assert "bucket" not in {t.kind for t in live.inventory(ref)} and list(cloud.stored(name)) == [f"{ref.id}/script"]
    assert sweep(live, ref, purge=True, say=lambda _: None)[1:] == ((), ())
    assert list(cloud.stored(name)) == []


def test_the_bucket_of_a_stack_that_is_up_is_written_to_and_left(cloud, made):
    """Also when it is empty: it is the stack's, and holds the script of its machine."""
    name = f"fs-{secrets.token_hex(5)}"
    cloud.call("s3", "CreateBucket", Bucket=name)
    cloud.call("s3", "PutBucketTagging", Bucket=name, Tagging={"TagSet": [{"Key": "app", "Value": "flexserve"}]})
    ref, live, _ = begun(made(outputs={"bucket": name, "host_image": "ami-07a66fa2acbcfea88"}), cloud)
    assert ref.outputs["bucket"] == name
    assert sweep(live, ref, purge=True, say=lambda _: None)[1:] == ((), ())
    assert list(cloud.stored(name)) == []


@pytest.mark.parametrize("broken", ["archive", "size", "manifest"])
def test_half_a_build_is_none(cloud, made, broken):
    name = f"theirs-{secrets.token_hex(4)}"
    cloud.call("s3", "CreateBucket", Bucket=name)
    builder = made(f"target.bucket={name}")
    keep(cloud, name, builder.key)
    assert builder.kept() is not None
    folder = f"builds/{builder.key}"
    if broken == "archive":
        cloud.drop_object(name, f"{folder}/venv.tar.gz")
    else:
        key = f"{folder}/{'venv.tar.gz' if broken == 'size' else 'manifest.json'}"
        cloud.drop_object(name, key)
        cloud.call("s3", "PutObject", Bucket=name, Key=key, Body=b"{")
    assert builder.kept() is None


def test_the_report_is_read_when_the_machine_is_gone(cloud, made):
    builder = made()
    ref, live, _ = begun(builder, cloud)
    cloud.call("ec2", "TerminateInstances", InstanceIds=[instance(cloud, ref)["InstanceId"]])
    cloud.clock.advance(10)
    assert live.find(ref) is None and live.boot(ref) is None
    state = json.dumps({"state": "failed", "phase": "wheel", "cause": "build-compiler: x", "run": "1"})
    report = json.dumps({"documents": {"state": state}, "log": ""}).encode()
    cloud.call("s3", "PutObject", Bucket=str(ref.outputs["bucket"]), Key=f"{ref.id}/report", Body=report)
    told = live.boot(ref)
    assert told is not None and (told.state, told.phase) == ("failed", "wheel")


def test_down_finds_a_builder_by_its_note_and_without_one(cloud, made, owner, session, monkeypatch):
    monkeypatch.setattr(module, "Session", lambda _region: session)
    builder = made()
    ref, _, _ = begun(builder, cloud)
    settings = {"region": cloud.region}
    found = left_of("g5g-spot", settings, owner, None)
    assert found is not None and found[1].id == ref.id and found[1].outputs["build"] == builder.key
    assert left_of("g5g-spot", settings, "somebody-else", None) is None
    sweep(found[0], found[1], purge=True, say=lambda _: None)
    assert left_of("g5g-spot", settings, owner, None) is None
    noted = left_of("g5g-spot", settings, owner, ref)
    assert noted is not None and list(noted[0].inventory(ref)) == []


def test_what_spot_costs_now_is_asked(cloud, made):
    builder = made()
    assert builder.price_now() is None  # nobody knows
    cloud.set_spot_price("m7g.8xlarge", 0.61)
    assert builder.price_now() == 0.61
