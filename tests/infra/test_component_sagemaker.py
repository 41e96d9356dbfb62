"""What an endpoint's component registers, under Pulumi's mocks: rules over the inputs, and that breaking any one is seen."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.loader import Catalog
from flexserve.commands.render import as_shown
from infra.image_facts import ImageFacts
from infra.kept import FACTS, OnChange
from infra.settle import settle
from infra.targets.protocol import Billable, DeploymentRef, Machine
from infra.targets.sagemaker import building, rights, verdicts
from infra.targets.sagemaker import resources as r
from infra.targets.sagemaker.moving import Serving
from infra.targets.sagemaker.names import Names
from startup import image
from startup.render import render
from tests.infra.mocked import registered
from tests.infra.test_settle import answers, at
from verdict.errors import NoAccess, Refused

ID = "0123456789"
BASE = f"fs-{ID}"
DIGEST, BUILT = "sha256:" + "a" * 64, "sha256:" + "c" * 64
ARN = "arn:aws:secretsmanager:us-east-2:123456789012:secret:hf-token-AbCdEf"
SAID = ImageFacts(DIGEST, ("amd64",), "13.0.2", ("7.5", "8.0", "8.6"))
TODAY = {"image": DIGEST, "model": "b" * 40, "target.repository": "own", "secret": ARN, FACTS: SAID.text()}
TAGS = {"app", "flexserve-id", "flexserve-owner", "flexserve-stack", "flexserve-expires"}
REGION = {"aws:region": "us-east-2"}
END = 1000 + 14400
UNTAGGED = ("RolePolicy", "BucketPublicAccessBlock", "BucketObjectv2", "Schedule", "Policy", "Stack")
SECRET = ["secret.name=hf-token"]
ACCOUNT = "123456789012"


@pytest.fixture
def register(sagemaker_t4, sagemaker_l4, monkeypatch):
    import pulumi

    from infra.targets.sagemaker import component

    asked: list[building.Wanted] = []

    def ensure(_session: object, wanted: building.Wanted, _say: object) -> str:
        asked.append(wanted)
        return BUILT

    cloud = Cloud()
    monkeypatch.setattr(building, "ensure", ensure)
    monkeypatch.setattr(component, "Live", lambda _: cloud)
    monkeypatch.setattr(component.aws, "get_caller_identity_output", lambda **_: Identity(pulumi.Output.from_input(ACCOUNT)))

    def run(*sets, stack=sagemaker_t4, configuration=REGION, table=TODAY):
        asked.clear()
        s = settle(stack(*sets), Catalog.load(), None, at(), answers(table))
        made = lambda: component.Stack("serve", s.plan, s.kept, render(s.plan.boot))  # noqa: E731
        resources, outputs = registered(made, {"arn": "arn:made"}, configuration)
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        for resource in resources:
            kinds.setdefault(resource.typ.rpartition(":")[2], []).append(resource.inputs)
        return kinds, outputs, list(asked)

    run.cloud = cloud
    run.l4 = lambda *sets, **more: run(*sets, stack=sagemaker_l4, **more)
    return run


class Cloud:
    """The running side as far as the component asks for it: what is in the endpoint's way."""

    def __init__(self) -> None:
        self.there: Machine | None = None
        self.now: Serving | None = None
        self.readied: list[str] = []
        self.deleted: list[Billable] = []
        self.broken = False

    def find(self, ref: DeploymentRef) -> Machine | None:
        assert ref.id == ID
        if self.broken:
            raise NoAccess("no answer")
        return self.there

    def serving(self, _: DeploymentRef) -> Serving | None:
        return self.now

    def make_ready(self, _: DeploymentRef, machine_type: str) -> None:
        self.readied.append(machine_type)

    def delete(self, thing: Billable) -> None:
        self.deleted.append(thing)


class Identity:
    """Who asks, in place of what the provider would say."""

    def __init__(self, account_id: Any) -> None:
        self.account_id = account_id


def statements(kinds: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    for policy in kinds.get("RolePolicy", []):
        yield from json.loads(policy["policy"])["Statement"]


def problems(kinds: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    """What is wrong with a set of registered inputs; nothing when all is well."""
    (model,), (config,), (endpoint,) = (kinds.get(k, [{}]) for k in ("Model", "EndpointConfiguration", "Endpoint"))
    container = model.get("primaryContainer", {})
    if "@sha256:" not in container.get("image", ""):
        yield "the image is named by its digest"
    environment = container.get("environment", {})
    if not environment or not all(k.startswith(("SM_VLLM_", "VLLM_", "FLEXSERVE_", "DO_NOT_TRACK")) for k in environment):
        yield "the environment is vLLM's arguments"
    if environment.get("SM_VLLM_REVISION") != "b" * 40 or "SM_VLLM_PORT" in environment or "SM_VLLM_HOST" in environment:
        yield "the revision is pinned, the port is the container's own"
    if not model.get("name", "").startswith(f"{BASE}-") or "name" in config or config.get("namePrefix") != f"{BASE}-":
        yield "what never changes has a name of its own each time"
    if endpoint.get("name") != BASE:
        yield "the endpoint's name stays"
    (variant,) = config.get("productionVariants", [{}])
    for key in ("inferenceAmiVersion", "containerStartupHealthCheckTimeoutInSeconds", "modelDataDownloadTimeoutInSeconds"):
        if not variant.get(key):
            yield f"{key} is asked for, on the variant"
    if "volumeSizeInGb" in variant:
        yield "a machine with a disk of its own takes no other"
    policy = endpoint.get("deploymentConfig", {}).get("blueGreenUpdatePolicy", {})
    if policy.get("trafficRoutingConfiguration", {}).get("type") != "ALL_AT_ONCE":
        yield "an update is blue/green"
    for kind, items in kinds.items():
        for item in items:
            if kind not in UNTAGGED and (not set(item.get("tags", {})) >= TAGS or item["tags"]["flexserve-id"] != ID):
                yield f"ours by id: {kind}"
    for statement in statements(kinds):
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        free = statement["Action"] == ["ecr:GetAuthorizationToken"] or "StringEquals" in statement.get("Condition", {})
        for resource in resources:
            aws = resource == "arn:aws:ecr:us-east-2:763104351884:repository/vllm"
            if not (free or aws or BASE in resource or "/mine" in resource or f":::mine/{ID}/" in resource or resource == ARN):
                yield f"rights are for what is ours: {resource}"
        if any("*" in action for action in statement["Action"]):
            yield "rights are named"
    (schedule,) = kinds.get("Schedule", [{}])
    if schedule.get("actionAfterCompletion") != "DELETE" or schedule.get("flexibleTimeWindow") != {"mode": "OFF"}:
        yield "the clock is exact and removes itself"
    if schedule.get("scheduleExpression") != f"at({datetime.fromtimestamp(END, UTC):%Y-%m-%dT%H:%M:%S})":
        yield "the clock ends the window"
    target = schedule.get("target", {})
    if not target.get("arn", "").endswith("sagemaker:deleteEndpoint") or json.loads(target["input"]) != {"EndpointName": BASE}:
        yield "the clock deletes the endpoint"
    if not any("application-autoscaling:DeregisterScalableTarget" in statement["Action"] for statement in statements(kinds)):
        yield "the clock may delete an endpoint that scales"
    ends = [s.get("Condition") for s in statements(kinds) if s["Action"] == ["sagemaker:DeleteEndpoint"]]
    if ends != [{"DateGreaterThanEquals": {"aws:CurrentTime": f"{datetime.fromtimestamp(END - 60, UTC):%Y-%m-%dT%H:%M:%SZ}"}}]:
        yield "the clock may delete it from the end of the window on"
    if not all(group.get("retentionInDays") for group in kinds.get("LogGroup", [{}])):
        yield "logs have an end"
    for repository in kinds.get("Repository", []):
        if repository.get("imageTagMutability") != "IMMUTABLE":
            yield "a tag stays where it is"
    for closed in kinds.get("BucketPublicAccessBlock", []):
        if not all(v for k, v in closed.items() if k != "bucket"):
            yield "the bucket is private"


def test_all_is_well_with_a_built_image(register):
    kinds, outputs, asked = register()
    assert list(problems(kinds)) == []
    assert {kind: len(items) for kind, items in kinds.items()} == {
        "Stack": 1, "Repository": 1, "Bucket": 1, "BucketPublicAccessBlock": 1, "BucketObjectv2": 1, "LogGroup": 2, "Project": 1,
        "Role": 3, "RolePolicy": 3, "Model": 1, "EndpointConfiguration": 1, "Endpoint": 1, "Schedule": 1,
    }  # fmt: skip
    (wanted,) = asked
    assert (wanted.project, wanted.repository) == (BASE, BASE) and wanted.tag.startswith("a" * 12)
    (model,) = kinds["Model"]
    assert model["primaryContainer"]["image"] == f"{ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/{BASE}@{BUILT}" == outputs["image"]
    assert outputs["access"]["kind"] == "sagemaker" and outputs["access"]["endpoint"] == BASE
    assert outputs["expires_at"] == f"{datetime.fromtimestamp(END, UTC):%Y-%m-%dT%H:%M:%SZ}"
    (variant,) = kinds["EndpointConfiguration"][0]["productionVariants"]
    assert (variant["instanceType"], variant["initialInstanceCount"]) == ("ml.g4dn.xlarge", 1)
    assert variant["inferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"
    assert model["primaryContainer"]["environment"]["SM_VLLM_DTYPE"] == "float16"


def test_what_the_build_gets_is_the_context_and_nothing_else(register):
    kinds, _, _ = register()
    (item,), (project,) = kinds["BucketObjectv2"], kinds["Project"]
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(item["contentBase64"]))) as packed:
        assert {"Dockerfile", "buildspec.yml"} <= set(packed.namelist())
    assert item["key"].startswith(f"{ID}/context-") and project["source"]["location"] == f"{BASE}/{item['key']}"
    assert project["environment"]["privilegedMode"] is True and project["artifacts"] == {"type": "NO_ARTIFACTS"}
    assert project["environment"]["environmentVariables"] == [
        {"name": image.BUILD_VARIABLE, "value": f"{ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/{BASE}"}
    ]


def test_awss_image_as_it_is_needs_no_build(register):
    kinds, outputs, asked = register.l4()
    assert list(problems(kinds)) == [] and asked == []
    assert not {"Project", "Repository", "Bucket", "BucketObjectv2"} & set(kinds)
    (model,) = kinds["Model"]
    assert model["primaryContainer"]["image"] == f"763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm@{DIGEST}" == outputs["image"]


@pytest.mark.parametrize(
    ("sets", "made"),
    [
        (["target.count={min: 1, max: 3}"], {"Target": 1, "Policy": 1}),
        (["target.execution_role=arn:aws:iam::123456789012:role/mine"], {"Role": 2, "RolePolicy": 2}),
        (["target.repository=mine"], {"Repository": 0, "Project": 1}),
        (["target.bucket=mine"], {"Bucket": 0, "BucketPublicAccessBlock": 0, "BucketObjectv2": 1}),
        (["target.alarm={usd: 100, mail: ops@acme.test}"], {"Budget": 1}),
        (SECRET, {"Role": 3}),
    ],
)
def test_each_part_may_be_yours(register, sets, made):
    table = {**TODAY, "target.repository": "mine"} if "target.repository=mine" in sets else TODAY
    kinds, _, _ = register(*sets, table=table)
    assert {kind: len(kinds.get(kind, [])) for kind in made} == made
    assert list(problems(kinds)) == []


def test_the_secret_is_named_by_its_arn_and_only_the_container_may_read_it(register):
    kinds, _, _ = register(*SECRET)
    assert kinds["Model"][0]["primaryContainer"]["environment"]["FLEXSERVE_SECRET_ARN"] == ARN
    readers = [s for s in statements(kinds) if "secretsmanager:GetSecretValue" in s["Action"]]
    assert [s["Resource"] for s in readers] == [ARN]
    without, _, _ = register(*SECRET, "secret.grant=existing")
    assert not [s for s in statements(without) if "secretsmanager:GetSecretValue" in s["Action"]]


def test_what_is_rendered_of_a_live_endpoint_names_the_secret_as_the_container_does(sagemaker_t4, sagemaker_l4):
    s = settle(sagemaker_t4(*SECRET), Catalog.load(), None, at(), answers(TODAY))
    live = as_shown(s.plan, s.kept.as_state())
    assert f'env FLEXSERVE_SECRET_ARN="{ARN}"' in render(live).script.decode()
    assert 'env FLEXSERVE_SECRET_ARN="hf-token"' in render(s.plan.boot).script.decode()  # what the script's hash is made of
    assert image.image_key(live) == image.image_key(s.plan.boot)
    without = settle(sagemaker_l4(), Catalog.load(), None, at(), answers(TODAY))
    assert as_shown(without.plan, without.kept.as_state()) == without.plan.boot


def test_scaling_tracks_what_the_stack_file_says(register):
    kinds, outputs, _ = register("target.count={min: 2, max: 4}", "target.scaling={by: invocations, target: 70}")
    (target,), (policy,) = kinds["Target"], kinds["Policy"]
    assert (target["minCapacity"], target["maxCapacity"]) == (2, 4)
    assert target["resourceId"] == policy["resourceId"] == f"endpoint/{BASE}/variant/main"
    tracked = policy["targetTrackingScalingPolicyConfiguration"]
    assert tracked["targetValue"] == 70
    assert tracked["predefinedMetricSpecification"] == {"predefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    assert outputs["price_per_hour"] == pytest.approx(1.472) and outputs["price_per_hour_most"] == pytest.approx(2.944)
    assert kinds["EndpointConfiguration"][0]["productionVariants"][0]["initialInstanceCount"] == 2


@pytest.mark.parametrize("dead", ["no capacity", ""])
def test_an_endpoint_that_never_served_makes_way_for_its_successor(register, monkeypatch, dead):
    """One that lives is left alone; a preview says it, and deletes nothing."""
    from infra.targets.sagemaker import component

    said: list[str] = []
    monkeypatch.setattr(component.pulumi.log, "warn", said.append)
    register.cloud.there = Machine(BASE, "us-east-2", "failed" if dead else "inservice", None, None, {}, dead=dead)
    kinds, _, _ = register()
    assert kinds["Endpoint"][0]["name"] == BASE
    assert register.cloud.deleted == ([Billable("endpoint", BASE, "us-east-2")] if dead else [])
    assert [dead in line and "made anew" in line for line in said] == ([True] if dead else [])
    monkeypatch.setattr(component.pulumi.runtime, "is_dry_run", lambda: True)
    register.cloud.deleted.clear()
    assert component.made_way("us-east-2", register.cloud.there, BASE, "") == BASE
    assert register.cloud.deleted == [] and len(said) == (2 if dead else 0)
    register.cloud.broken = True
    assert component.there("us-east-2", DeploymentRef("sagemaker-t4", ID)) is None
    assert component.made_way("us-east-2", None, BASE, "") == BASE


def test_one_that_is_still_creating_ends_an_update_before_anything_is_changed(register, monkeypatch):
    """The engine knows nothing of it; a preview says the same and goes on."""
    from infra.targets.sagemaker import component

    said: list[str] = []
    register.cloud.there = Machine(BASE, "us-east-2", "creating", None, None, {})
    with pytest.raises(component.pulumi.RunError, match="still Creating") as ended:
        component.there("us-east-2", DeploymentRef("sagemaker-t4", ID))
    again = verdicts.from_words(f"error: {ended.value}")
    assert (again.kind, again.what.partition(" ")[0]) == ("endpoint-creating", BASE) and "flexserve down" in again.way_out
    monkeypatch.setattr(component.pulumi.log, "warn", said.append)
    monkeypatch.setattr(component.pulumi.runtime, "is_dry_run", lambda: True)
    assert component.there("us-east-2", DeploymentRef("sagemaker-t4", ID)) is register.cloud.there
    assert said == [str(ended.value)] and register.cloud.deleted == []


BREAKS = [
    (r, "model", lambda a: {**a, "primary_container": {**a["primary_container"], "image": "vllm/vllm-openai:latest"}}),
    (r, "configuration", lambda a: {**a, "name": "fixed"}),
    (r, "configuration", lambda a: {k: v for k, v in a.items() if k != "name_prefix"}),
    (r, "configuration", lambda a: broken_variant(a, "inference_ami_version")),
    (r, "configuration", lambda a: broken_variant(a, "container_startup_health_check_timeout_in_seconds")),
    (r, "endpoint", lambda a: {k: v for k, v in a.items() if k != "deployment_config"}),
    (r, "endpoint", lambda a: {**a, "name": f"{BASE}-2"}),
    (r, "tags", lambda a: {k: v for k, v in a.items() if k != "flexserve-id"}),
    (r, "schedule", lambda a: {**a, "schedule_expression": "at(2030-01-01T00:00:00)"}),
    (r, "schedule", lambda a: {**a, "target": {**a["target"], "input": '{"EndpointName":"other"}'}}),
    (r, "container_environment", lambda a: {**a, "HF_TOKEN": "x"}),
    (r, "container_environment", lambda a: {**a, "SM_VLLM_REVISION": "main"}),
    (r, "log_group", lambda a: {k: v for k, v in a.items() if k != "retention_in_days"}),
    (r, "repository", lambda a: {**a, "image_tag_mutability": "MUTABLE"}),
    (rights, "run", lambda a: a.replace(BASE, "*")),
    (rights, "build", lambda a: a.replace(f":::{BASE}", ":::*")),
    (rights, "clock", lambda a: a.replace(BASE, "*")),
    (rights, "clock", lambda a: json.dumps({"Statement": json.loads(a)["Statement"][:1]})),
    (rights, "clock", lambda a: a.replace("DateGreaterThanEquals", "DateLessThan")),
]


def broken_variant(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    (variant,) = arguments["production_variants"]
    return {**arguments, "production_variants": [{k: v for k, v in variant.items() if k != key}]}


@pytest.mark.parametrize(("module", "function", "change"), BREAKS, ids=[f"{i}-{b[1]}" for i, b in enumerate(BREAKS)])
def test_a_broken_value_is_seen(register, monkeypatch, module, function, change):
    right = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *a, **k: change(right(*a, **k)))
    kinds, _, _ = register(*SECRET)
    assert list(problems(kinds)) != []


def test_no_registered_input_holds_a_secret_value(register, monkeypatch):
    sentinel = "hf_SENTINELsentinel0123456789"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, sentinel)
    kinds, outputs, _ = register(*SECRET)
    text = json.dumps([kinds, outputs], default=str)
    assert sentinel not in text and base64.b64encode(sentinel.encode()).decode() not in text
    assert sentinel in json.dumps([{**kinds, "planted": sentinel}], default=str)  # the control


def test_a_t4_becomes_an_l4_in_place_and_another_region_is_refused(sagemaker_t4):
    first = settle(sagemaker_t4(), Catalog.load(), None, at(), answers(TODAY))
    sets = ["target.machine_type=ml.g6.xlarge", "target.image_source=aws"]
    later = settle(sagemaker_t4(*sets), Catalog.load(), first.kept, at(live=True, now=9999), answers({}))
    assert later.plan.machine.name == "ml.g6.xlarge" and not later.plan.boot.sagemaker.built and later.replaces == ()
    elsewhere = sagemaker_t4("target.region=us-east-1", "image.name=763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm@" + DIGEST)
    with pytest.raises(Refused, match="live-machine"):
        settle(elsewhere, Catalog.load(), first.kept, at(live=True, now=9999), answers(TODAY))
    assert r.wanted(sagemaker_t4(), "")["target.region"].on_change is OnChange.REFUSE


def test_the_models_name_is_made_of_what_it_is(sagemaker_t4):
    s = settle(sagemaker_t4(), Catalog.load(), None, at(), answers(TODAY))
    names = {r.model(s.plan, s.kept, uri, role)["name"] for uri in ("a", "b") for role in ("c", "d")}
    assert len(names) == 4 and all(len(name) <= 63 for name in names)
    assert r.model(s.plan, s.kept, "a", "c") == r.model(s.plan, s.kept, "a", "c")


def test_one_built_image_serves_both_cards(sagemaker_t4, sagemaker_l4):
    keys = set()
    for stack in (sagemaker_t4("target.repository=mine"), sagemaker_l4("target.repository=mine", "target.image_source=patched")):
        s = settle(stack, Catalog.load(), None, at(), answers(TODAY))
        keys.add(image.image_key(s.plan.boot))
    assert len(keys) == 1


def everything(s):
    """All argument dictionaries that the component may register, and the policies, as one document to read in review."""
    boot, names = render(s.plan.boot), Names(ID)
    made = r.model(s.plan, s.kept, "IMAGE", "ROLE")
    config = r.configuration(s.plan, s.kept, boot, "MODEL")
    config["tags"] = {**config["tags"], "flexserve-script": "SHA256"}
    return {
        "model": made,
        "configuration": config,
        "endpoint": r.endpoint(s.plan, s.kept, "CONFIG"),
        "scaling": [r.scaling_target(s.plan, s.kept), r.scaling_policy(s.plan, s.kept)],
        "schedule": r.schedule(s.plan, s.kept, "ROLE"),
        "repository": r.repository(s.plan, s.kept),
        "project": r.build_project(s.plan, s.kept, "ROLE", "LOCATION", "URI"),
        "logs": r.log_group(s.plan, s.kept, names.logs),
        "run": json.loads(rights.run("us-east-2", names, "REPOSITORY", ARN)),
        "build": json.loads(rights.build("us-east-2", names, "BASE", "REPOSITORY", "OBJECT")),
        "clock": json.loads(rights.clock("us-east-2", names, END)),
        "outputs": {**r.outputs(s.plan, s.kept, boot), "script_sha256": "SHA256"},
    }


def test_snapshot(sagemaker_t4, root):
    s = settle(sagemaker_t4("target.count={min: 1, max: 3}"), Catalog.load(), None, at(), answers(TODAY))
    path = root / "tests" / "infra" / "snapshots" / "sagemaker-t4.json"
    found = json.loads(json.dumps(everything(s)))
    assert found == json.loads(path.read_text(encoding="utf-8"))
