"""What the spot machine's component registers, under Pulumi's mocks: rules over the inputs, and that breaking any one is seen."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.loader import Catalog
from infra.settle import settle
from infra.targets.ec2_spot import network as n
from infra.targets.ec2_spot import resources as r
from infra.targets.ec2_spot import rights
from startup.render import render
from tests.infra.mocked import registered
from tests.infra.test_resources import Boot
from tests.infra.test_settle import answers, at

ID = "0123456789"
BASE = f"fs-{ID}"
IMAGE = "ami-07a66fa2acbcfea88"
TODAY = {"target.host_image": IMAGE, "target.bucket": "own", "model": "b" * 40}
TAGS = {"app", "flexserve-id", "flexserve-owner", "flexserve-stack", "flexserve-expires"}
REGION = {"aws:region": "us-east-1"}
END = 1000 + 14400
UNTAGGED = ("RolePolicy", "RolePolicyAttachment", "RouteTableAssociation", "BucketPublicAccessBlock", "BucketObjectv2")
UNTAGGED += ("Schedule", "Association", "Stack")


@pytest.fixture
def register(g5g_spot):
    from infra.targets.ec2_spot.component import Stack

    def run(*sets, table=TODAY, configuration=REGION, replace=False):
        s = settle(g5g_spot(*sets), Catalog.load(), None, at(), answers(table))
        made = lambda: Stack("serve", s.plan, s.kept, render(s.plan.boot), replace=replace)  # noqa: E731
        resources, outputs = registered(made, {"instanceLifecycle": "spot"}, configuration)
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        for resource in resources:
            kinds.setdefault(resource.typ.rpartition(":")[2], []).append(resource.inputs)
        return kinds, outputs

    return run


def statements(kinds: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    for policy in kinds.get("RolePolicy", []):
        yield from json.loads(policy["policy"])["Statement"]


def problems(kinds: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    """What is wrong with a set of registered inputs; nothing when all is well."""
    vms = kinds.get("Instance", [])
    if len(vms) != 1:
        yield "there is one machine"
        return
    (vm,) = vms
    wanted = {"marketType": "spot", "spotOptions": {"spotInstanceType": "one-time", "instanceInterruptionBehavior": "terminate"}}
    if vm.get("instanceMarketOptions") not in (wanted, None):
        yield "a request is for once, and ends with its machine"
    if vm.get("instanceInitiatedShutdownBehavior") != "terminate":
        yield "a shutdown inside is the end"
    if vm.get("metadataOptions", {}).get("httpTokens") != "required":
        yield "the metadata service wants a session"
    root = vm.get("rootBlockDevice", {})
    if not root.get("deleteOnTermination") or not root.get("encrypted") or root.get("tags", {}).get("flexserve-id") != ID:
        yield "the volume is encrypted, goes with the machine and is found by id"
    if not root.get("iops") or not root.get("throughput"):
        yield "the volume's speed is asked for"
    if "keyName" in vm or len(vm.get("userData", "").encode()) > 16384:
        yield "no key, and user data within EC2's limit"
    for kind, items in kinds.items():
        for item in items:
            if kind not in UNTAGGED and (not set(item.get("tags", {})) >= TAGS or item["tags"]["flexserve-id"] != ID):
                yield f"ours by id: {kind}"
    for group in kinds.get("SecurityGroup", []):
        if group.get("ingress"):
            yield "nothing may enter"
    if any("Ingress" in kind for kind in kinds):
        yield "nothing may enter, by another resource"
    for statement in statements(kinds):
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        bounded = statement.get("Condition") == {"StringEquals": {"ec2:ResourceTag/flexserve-id": ID}}
        for resource in resources:
            ours = f":::{BASE}" in resource or ":::mine" in resource or resource.endswith(":secret:hf-token-??????")
            if not ours and not bounded:
                yield f"rights are for what is ours: {resource}"
        if "*" in statement["Action"]:
            yield "rights are named"
    (schedule,) = kinds.get("Schedule", [{}])
    if schedule.get("actionAfterCompletion") != "DELETE" or schedule.get("flexibleTimeWindow") != {"mode": "OFF"}:
        yield "the clock is exact and removes itself"
    if schedule.get("scheduleExpression") != f"at({datetime.fromtimestamp(END, UTC):%Y-%m-%dT%H:%M:%S})":
        yield "the clock ends the window"
    (script,) = kinds.get("BucketObjectv2", [{}])
    (association,) = kinds.get("Association", [{}])
    if script.get("key") != f"{ID}/script" or "again" not in association.get("parameters", {}).get("commands", ""):
        yield "a changed script reaches the machine"
    for closed in kinds.get("BucketPublicAccessBlock", []):
        if not all(v for k, v in closed.items() if k != "bucket"):
            yield "the bucket is private"


def test_all_is_well_with_the_shipped_stack(register):
    kinds, outputs = register()
    assert list(problems(kinds)) == []
    assert {kind: len(items) for kind, items in kinds.items()} == {
        "Stack": 1, "Role": 2, "RolePolicy": 2, "RolePolicyAttachment": 1, "InstanceProfile": 1, "Vpc": 1, "Subnet": 1,
        "InternetGateway": 1, "RouteTable": 1, "RouteTableAssociation": 1, "VpcEndpoint": 1, "SecurityGroup": 1, "Bucket": 1,
        "BucketPublicAccessBlock": 1, "BucketObjectv2": 1, "Instance": 1, "Association": 1, "Schedule": 1,
    }  # fmt: skip
    (vm,) = kinds["Instance"]
    assert (vm["ami"], vm["instanceType"], vm["associatePublicIpAddress"]) == (IMAGE, "g5g.xlarge", True)
    assert outputs["expires_at"] == f"{datetime.fromtimestamp(END, UTC):%Y-%m-%dT%H:%M:%SZ}" and outputs["provisioning"] == "spot"
    assert outputs["access"] == {"kind": "ssm", "region": "us-east-1", "instance_id": "vm-id", "port": 8000}
    assert outputs["bucket"] == BASE and outputs["zone"] == "us-east-1a" and outputs["host_image"] == IMAGE
    assert json.loads(kinds["Schedule"][0]["target"]["input"]) == {"InstanceIds": ["vm-id"]}


@pytest.mark.parametrize(
    ("sets", "made"),
    [
        (["egress=nat"], {"NatGateway": 1, "Eip": 1, "Subnet": 2, "RouteTable": 2, "InternetGateway": 1, "VpcEndpoint": 1}),
        (["egress=existing", "allow=[no-way-out]"], {"NatGateway": 0, "InternetGateway": 0}),
        (["target.network={vpc: vpc-12345678, subnets: {us-east-1a: subnet-12345678}}", "target.zones=[us-east-1a]"],
         {"Vpc": 0, "Subnet": 0, "RouteTable": 0, "SecurityGroup": 1}),
        (["target.instance_profile=mine"], {"InstanceProfile": 0, "Role": 1, "RolePolicy": 1}),
        (["target.bucket=mine"], {"Bucket": 0, "BucketPublicAccessBlock": 0, "BucketObjectv2": 1}),
        (["secret=null"], {"RolePolicy": 2}),
        (["target.on_demand=only"], {"Instance": 1}),
    ],
)  # fmt: skip
def test_each_part_may_be_yours(register, sets, made):
    table = {**TODAY, "target.bucket": "mine"} if "target.bucket=mine" in sets else TODAY
    kinds, _ = register(*sets, table=table)
    assert {kind: len(kinds.get(kind, [])) for kind in made} == made
    assert list(problems(kinds)) == []


def rights_of(register, *sets):
    kinds, _ = register(*sets)
    return {(s["Action"], str(s["Resource"])) for s in statements(kinds)}


def test_the_machine_may_read_one_secret_and_its_own_objects(register):
    every = rights_of(register)
    assert ("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-east-1:*:secret:hf-token-??????") in every
    assert not [action for action, _ in every if action == "s3:PutObject"]
    assert not [a for a, _ in rights_of(register, "secret.grant=existing") if a.startswith("secretsmanager")]


def test_on_demand_asks_for_no_market_and_a_price_is_a_bound(register):
    assert "instanceMarketOptions" not in register("target.on_demand=only")[0]["Instance"][0]
    options = register("target.max_price_per_hour=0.2")[0]["Instance"][0]["instanceMarketOptions"]["spotOptions"]
    assert options["maxPrice"] == "0.2"


def test_a_bucket_with_builds_that_was_found_is_used_and_not_made(register):
    kinds, outputs = register(table={**TODAY, "target.bucket": "fs-aaaaaaaaaa"})
    assert "Bucket" not in kinds and kinds["BucketObjectv2"][0]["bucket"] == "fs-aaaaaaaaaa" == outputs["bucket"]
    assert "fs-aaaaaaaaaa" in kinds["Instance"][0]["userData"]


def test_every_zone_has_a_part_of_the_range_of_its_own():
    asked = [(f"us-east-1{letter}", nat) for letter in n.LETTERS for nat in (False, True)]
    parts = [n.subnet(BASE, "10.9.0.0/24", zone, "V", {}, nat=nat)["cidr_block"] for zone, nat in asked]
    assert len(set(parts)) == 16 and all(part.endswith("/28") for part in parts)  # the smallest that AWS makes


BREAKS = [
    (r, "market", lambda a: {**a, "spot_options": {**a["spot_options"], "spot_instance_type": "persistent"}}),
    (r, "market", lambda a: {**a, "spot_options": {**a["spot_options"], "instance_interruption_behavior": "stop"}}),
    (r, "tags", lambda a: {k: v for k, v in a.items() if k != "flexserve-id"}),
    (r, "tags", lambda a: {**a, "flexserve-id": "somebody"}),
    (r, "instance", lambda a: {**a, "instance_initiated_shutdown_behavior": "stop"}),
    (r, "instance", lambda a: {**a, "metadata_options": {**a["metadata_options"], "http_tokens": "optional"}}),
    (r, "instance", lambda a: {**a, "root_block_device": {**a["root_block_device"], "delete_on_termination": False}}),
    (r, "instance", lambda a: {**a, "root_block_device": {**a["root_block_device"], "encrypted": False}}),
    (r, "instance", lambda a: {**a, "root_block_device": {k: v for k, v in a["root_block_device"].items() if k != "iops"}}),
    (r, "instance", lambda a: {**a, "key_name": "mine"}),
    (r, "instance", lambda a: {**a, "user_data": "#!/bin/bash\n" + "x" * 16384}),
    (
        n,
        "no_way_in",
        lambda a: {**a, "ingress": [{"protocol": "tcp", "from_port": 22, "to_port": 22, "cidr_blocks": ["0.0.0.0/0"]}]},
    ),
    (r, "schedule", lambda a: {k: v for k, v in a.items() if k != "action_after_completion"}),
    (r, "schedule", lambda a: {**a, "schedule_expression": "at(2030-01-01T00:00:00)"}),
    (r, "association", lambda a: {**a, "parameters": {"commands": "true"}}),
    (r, "script_object", lambda a: {**a, "key": "script"}),
    (rights, "machine", lambda a: a.replace("hf-token-??????", "*")),
    (rights, "machine", lambda a: a.replace(f":::{BASE}", ":::*")),
    (rights, "clock", lambda a: a.replace(ID, "somebody")),
]


@pytest.mark.parametrize(("module", "function", "change"), BREAKS, ids=[f"{i}-{b[1]}" for i, b in enumerate(BREAKS)])
def test_a_broken_value_is_seen(register, monkeypatch, module, function, change):
    right = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *a, **k: change(right(*a, **k)))
    kinds, _ = register()
    assert list(problems(kinds)) != []


def test_no_registered_input_holds_a_secret_value(register, monkeypatch):
    sentinel = "hf_SENTINELsentinel0123456789"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, sentinel)
    kinds, outputs = register()
    text = json.dumps([kinds, outputs], default=str)
    assert sentinel not in text and base64.b64encode(sentinel.encode()).decode() not in text
    assert sentinel in json.dumps([{**kinds, "planted": sentinel}], default=str)  # the control


def test_what_replaces_a_live_machine_is_not_looked_at_without_consent(g5g_spot):
    """A later plan of the same deployment with another image, size, zone keeps what the machine was made with."""
    first = settle(g5g_spot(), Catalog.load(), None, at(), answers(TODAY))
    later = settle(
        g5g_spot("target.zones=[us-east-1b]", "target.disk_gb=200", "target.max_price_per_hour=0.3", "target.on_demand=only"),
        Catalog.load(),
        first.kept,
        at(live=True, now=99999),
        answers({}),
    )
    assert later.kept == first.kept and len(later.words) == 4
    arguments = {"subnet_id": "S", "group_id": "G", "profile": "P"}
    assert r.instance(first.plan, first.kept, render(first.plan.boot), **arguments) == r.instance(
        later.plan, later.kept, render(later.plan.boot), **arguments
    )


def test_the_stub_does_not_change_with_a_changed_flag_and_the_script_does(g5g_spot):
    first = settle(g5g_spot(), Catalog.load(), None, at(), answers(TODAY))
    later = settle(g5g_spot("serving.text_only=true"), Catalog.load(), first.kept, at(live=True, now=99999), answers({}))
    before, after = render(first.plan.boot), render(later.plan.boot)
    assert before.stub == after.stub and before.sha256 != after.sha256
    assert r.association(first.plan, before, "i")["parameters"] != r.association(later.plan, after, "i")["parameters"]


@pytest.mark.parametrize("place", ["us-east-1b", "us-east-1a/g5g.2xlarge", "us-east-1b/g5g.2xlarge/on-demand"])
def test_a_given_place_decides_zone_size_and_price(g5g_spot, place):
    sets = ("target.zones=[us-east-1a, us-east-1b]", "target.larger=[g5g.2xlarge]", "target.on_demand=fall_back")
    deployment = g5g_spot(*sets)
    s = settle(deployment, Catalog.load(), None, at(place=place), answers(TODAY))
    target, asked = s.plan.deployment.target, deployment.target
    assert (target.zones[0], target.machine_type, target.provisioning) == (asked.zone(place), asked.size(place), asked.given(place))
    assert s.plan.cost.per_hour > 0 and s.plan.machine.name == target.machine_type
    again = settle(deployment, Catalog.load(), s.kept, at(live=True, now=5000), answers({}))
    assert again.kept == s.kept and again.words == ()


def everything(s):
    """All argument dictionaries that the component may register, and the policies, as one document to read in review."""
    boot = Boot()
    tags = r.tags(s.plan, s.kept)
    return {
        "instance": r.instance(s.plan, s.kept, boot, subnet_id="S", group_id="G", profile="P"),
        "script": r.script_object(s.plan, boot, "B"),
        "association": r.association(s.plan, boot, "I"),
        "schedule": r.schedule(s.plan, s.kept, "R", r.terminate_input("I")),
        "vpc": n.vpc(BASE, "10.9.0.0/24", tags),
        "subnet": n.subnet(BASE, "10.9.0.0/24", "us-east-1a", "V", tags),
        "group": n.no_way_in(BASE, "V", tags),
        "s3": n.s3_endpoint(BASE, "us-east-1", "V", ["T"], tags),
        "machine": json.loads(rights.machine("us-east-1", BASE, ID, "hf-token", own_bucket=True)),
        "clock": json.loads(rights.clock("us-east-1", ID)),
        "outputs": r.outputs(s.plan, s.kept, boot),
    }


def test_only_a_machine_that_makes_the_build_may_write_it():
    """And nothing beside it: neither the script that it runs nor another build."""
    may = {made: json.loads(rights.machine("us-east-1", BASE, ID, None, own_bucket=True, made=made)) for made in ("", "key")}
    writes = {made: [s["Resource"] for s in doc["Statement"] if "Put" in json.dumps(s)] for made, doc in may.items()}
    assert writes == {"": [], "key": [f"arn:aws:s3:::{BASE}/builds/key/*"]}


def test_snapshot(g5g_spot, root):
    s = settle(g5g_spot(), Catalog.load(), None, at(), answers(TODAY))
    path = root / "tests" / "infra" / "snapshots" / "g5g-spot.json"
    assert json.loads(json.dumps(everything(s))) == json.loads(path.read_text(encoding="utf-8"))
