"""One life of `sagemaker-t4`, with everything that an operator does in it: the image built, another card and back, and to zero."""

from __future__ import annotations

import json
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal.hunt import ProcessWatch, in_bytes, in_files, in_image_layers
from rehearsal.product import Ran
from rehearsal.run import Rehearsal
from rehearsal.targets.sagemaker import SageMakerStage
from tools.docs.sagemaker_rights import actions, load

pytestmark = [pytest.mark.usefixtures("bootable"), pytest.mark.timeout(900)]

STACK = "sagemaker-t4"
INSIDE = ("sagemaker_entrypoint", "sagemaker_args", "standard-supervisor", "vllm")
"""What the wrapper hands the token on to, in its environment: the entry point and its reader of variables, supervisor, server."""
CARDS = {"l4": "ml.g6.xlarge", "t4": "ml.g4dn.xlarge"}


def elsewhere(hit: str) -> bool:
    """Whether a process other than the container's own, from its entry point on, has the token; in its arguments none may."""
    return not (hit.startswith("environ of ") and any(word in hit for word in INSIDE))


@dataclass
class Life:
    """What was seen, step by step."""

    ran: dict[str, Ran] = field(default_factory=dict)
    answer: tuple[str, str] = "", ""
    steady: dict[str, Any] = field(default_factory=dict)
    endpoint: dict[str, dict[str, Any]] = field(default_factory=dict)
    configs: dict[str, int] = field(default_factory=dict)
    scaling: dict[str, tuple[int, int]] = field(default_factory=dict)
    hunts: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    held: bool = False
    left: dict[str, list[str]] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)
    rehearsal: Rehearsal = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def life(root: Path) -> Iterator[Life]:
    """Up, used, searched, moved to another card and back while it is used, taken away."""
    sentinel, control = ("hf_" + secrets.token_hex(16) for _ in range(2))
    seen = Life()
    sets = ("secret.name=hf-token", "target.count={min: 1, max: 2}", "target.alarm={usd: 100, mail: ops@acme.test}")
    rehearsal = seen.rehearsal = Rehearsal(root, STACK, sets=sets, secret=sentinel, say=lambda line: print(line, file=sys.stderr))
    with rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, SageMakerStage)
        with ProcessWatch(sentinel, control) as watch:
            with asking(seen, stage, "deploy"):
                seen.ran["up"] = rehearsal.step("up", "--yes")
            machine = stage.room.machines["sagemaker"]
            machine.exec(["sh", "-c", f"sleep 1 # {control}"])
        seen.hunts["processes"] = any(map(elsewhere, watch.seen[sentinel])), bool(watch.seen[control])
        seen.held = any("vllm" in hit for hit in watch.seen[sentinel])
        with asking(seen, stage, "look"):
            seen.ran["status"] = rehearsal.step("status", "--boot")
        with asking(seen, stage, "use"):
            seen.answer = rehearsal.ask(stream=True), rehearsal.verdict.nonce
        _look(seen, stage, "up")
        seen.environment = dict(_model(stage)["PrimaryContainer"]["Environment"])
        _hunt(seen, stage, machine, sentinel, control)
        with asking(seen, stage, "deploy"):
            _there_and_back(seen, stage)
            seen.ran["down"] = rehearsal.step("down", "--yes")
        _left(seen, stage, "down")
        with asking(seen, stage, "deploy"):
            seen.ran["purge"] = rehearsal.step("down", "--yes", "--purge")
        _left(seen, stage, "purge")
    yield seen


@contextmanager
def asking(seen: Life, stage: SageMakerStage, who: str) -> Iterator[None]:
    """What the operator's credentials had to allow meanwhile."""
    before = len(stage.aws.log.entries())
    yield
    seen.asked.setdefault(who, set()).update(a for entry in stage.aws.log.entries()[before:] for a in entry.actions)


def _there_and_back(seen: Life, stage: SageMakerStage) -> None:
    """The L4 by `flexserve up`, the T4 again by plain `pulumi up`; a request through the proxy every 100 ms all the while."""
    rehearsal = seen.rehearsal
    ways: Mapping[str, Callable[[], Ran]] = {
        "l4": lambda: rehearsal.step("up", "--yes"),
        "t4": lambda: rehearsal.product.pulumi("up", "--yes", "--skip-preview", "-s", STACK),
    }
    stop = rehearsal.folder / "enough"
    command = f"{sys.executable} -m rehearsal.steady {stop}"

    def use() -> None:
        seen.ran["steady"] = rehearsal.product.flexserve("tunnel", "-s", STACK, "--port", "0", "--exec", command, timeout=600)

    user = threading.Thread(target=use)
    user.start()
    try:
        for card, machine_type in CARDS.items():
            rehearsal.change(f"target.machine_type={machine_type}")
            seen.ran[card] = ways[card]()
            _look(seen, stage, card)
    finally:
        stop.touch()
        user.join(120)
    seen.steady = json.loads(seen.ran["steady"].stdout.strip().splitlines()[-1])


def _look(seen: Life, stage: SageMakerStage, step: str) -> None:
    """The endpoint as SageMaker shows it, its machine type and model, and how many configurations there are."""
    (name,) = stage.aws.endpoints()
    shown = stage.aws.call("sagemaker", "DescribeEndpoint", EndpointName=name)
    config = stage.aws.call("sagemaker", "DescribeEndpointConfig", EndpointConfigName=shown["EndpointConfigName"])
    (variant,) = config["ProductionVariants"]
    seen.endpoint[step] = {**shown, "type": variant["InstanceType"], "model": variant["ModelName"]}
    seen.configs[step] = len(stage.aws.call("sagemaker", "ListEndpointConfigs")["EndpointConfigs"])
    targets, policies = (
        stage.aws.call("application-autoscaling", operation, ServiceNamespace="sagemaker")
        for operation in ("DescribeScalableTargets", "DescribeScalingPolicies")
    )
    seen.scaling[step] = len(targets["ScalableTargets"]), len(policies["ScalingPolicies"])


def _left(seen: Life, stage: SageMakerStage, step: str) -> None:
    rehearsal = seen.rehearsal
    rehearsal.verdict.read(stage.cloud.ledger, rehearsal._before)
    seen.left[step] = [item.kind for item in rehearsal.verdict.left]


def _model(stage: SageMakerStage) -> dict[str, Any]:
    (name,) = [model["ModelName"] for model in stage.aws.call("sagemaker", "ListModels")["Models"]]
    return dict(stage.aws.call("sagemaker", "DescribeModel", ModelName=name))


def _hunt(seen: Life, stage: SageMakerStage, machine: Any, sentinel: str, control: str) -> None:
    """Search every place for the sentinel, and for a control that is planted there first."""
    folder = seen.rehearsal.folder
    places = {
        "state": folder / "state",
        "pulumi home": folder / "pulumi-home",
        "commands log": folder / "commands.log",
        "project": folder / "project",
        "machine's disk": machine.folder / "disk.img",
        "machine's out": machine.folder / "out",
    }
    machine.exec(["sh", "-c", f"echo {control} | gzip | base64 >/var/planted; sync"])
    for place in ("state", "pulumi home", "project", "machine's out"):
        (places[place] / "planted").write_text(json.dumps({"x": control}))
    with places["commands log"].open("a") as log:
        log.write(control + "\n")
    for place, path in places.items():
        seen.hunts[place] = bool(in_files(path, sentinel)), bool(in_files(path, control))
    _plant(stage, control)
    for place, data in _cloud(stage).items():
        seen.hunts[place] = in_bytes(data, sentinel), in_bytes(data, control)
    requests = json.dumps(list(stage.aws.requests()), default=str).encode()
    seen.hunts["requests"] = in_bytes(requests, sentinel), in_bytes(requests, stage.aws.account)
    layers = in_image_layers(stage.room.images.storage, sentinel, "FLEXSERVE_SECRET_ARN")
    seen.hunts["image layers"] = bool(layers[sentinel]), bool(layers["FLEXSERVE_SECRET_ARN"])


def _plant(stage: SageMakerStage, control: str) -> None:
    """The control in what SageMaker, CodeBuild, the log and the bucket keep."""
    state = stage.aws.state
    with state.lock:
        for model in state.sagemaker.models.values():
            model["PrimaryContainer"]["Environment"]["PLANTED"] = control
        for config in state.sagemaker.configs.values():
            state.sagemaker.tags[config["EndpointConfigArn"]]["planted"] = control
        for endpoint in state.sagemaker.endpoints.values():
            state.sagemaker.tags[endpoint.arn]["planted"] = control
        for project in state.codebuild.projects.values():
            project["environment"]["environmentVariables"].append({"name": "PLANTED", "value": control, "type": "PLAINTEXT"})
        for group in state.logs.groups.values():
            state.logs.write(group.name, "planted", [control], int(state.clock.now() * 1000))
    (bucket,) = [b["Name"] for b in stage.aws.call("s3", "ListBuckets")["Buckets"]]
    stage.aws.call("s3", "PutObject", Bucket=bucket, Key="planted", Body=control.encode())


def _cloud(stage: SageMakerStage) -> dict[str, bytes]:
    """What the cloud shows to whoever may look, as bytes, by place."""
    aws = stage.aws

    def shown(service: str, operation: str, **params: object) -> bytes:
        return json.dumps(aws.call(service, operation, **params), default=str).encode()

    def listed(operation: str, key: str, name: str) -> list[str]:
        return [item[name] for item in aws.call("sagemaker", operation)[key]]

    (endpoint,) = aws.endpoints()
    arn = aws.call("sagemaker", "DescribeEndpoint", EndpointName=endpoint)["EndpointArn"]
    configs = listed("ListEndpointConfigs", "EndpointConfigs", "EndpointConfigArn")
    models = listed("ListModels", "Models", "ModelName")
    groups = [group["logGroupName"] for group in aws.call("logs", "DescribeLogGroups")["logGroups"]]
    (bucket,) = [b["Name"] for b in aws.call("s3", "ListBuckets")["Buckets"]]
    return {
        "DescribeModel": b"".join(shown("sagemaker", "DescribeModel", ModelName=name) for name in models),
        "DescribeEndpointConfig": b"".join(
            shown("sagemaker", "DescribeEndpointConfig", EndpointConfigName=a.rpartition("/")[2])
            + shown("sagemaker", "ListTags", ResourceArn=a)
            for a in configs
        ),
        "DescribeEndpoint": shown("sagemaker", "DescribeEndpoint", EndpointName=endpoint)
        + shown("sagemaker", "ListTags", ResourceArn=arn),
        "CodeBuild": shown("codebuild", "BatchGetProjects", names=aws.call("codebuild", "ListProjects")["projects"]),
        "logs": b"".join(shown("logs", "FilterLogEvents", logGroupName=group) for group in groups),
        "objects": b"\n".join(aws.stored(bucket).values()),
    }


def test_every_command_did_what_it_should(life):
    assert {name: ran.returncode for name, ran in life.ran.items()} == dict.fromkeys(life.ran, 0), {
        n: (r.stdout[-800:], r.stderr[-800:]) for n, r in life.ran.items() if r.returncode
    }


def test_the_answers_through_the_signing_proxy_hold_their_nonces(life):
    """Those of the steady requests, which are whole, are looked at one by one."""
    answer, nonce = life.answer
    assert nonce in answer and life.steady["answered"] > 0


def test_status_is_serving(life):
    status = life.ran["status"].document
    assert status["state"] == "serving" and status["seconds_left"] > 0
    assert status["script"]["running"] == status["script"]["wanted"] != ""


def test_the_model_names_the_secret_and_the_container_has_its_value(life):
    assert "arn:aws:secretsmanager" in life.environment["FLEXSERVE_SECRET_ARN"]
    assert not any(value.startswith("hf_") for value in life.environment.values())
    assert life.held


def test_the_token_is_nowhere_and_the_hunt_finds_its_controls(life):
    assert {place: control for place, (_, control) in life.hunts.items()} == dict.fromkeys(life.hunts, True)
    assert {place: sentinel for place, (sentinel, _) in life.hunts.items()} == dict.fromkeys(life.hunts, False)


def test_another_card_and_back_in_place_with_no_request_lost(life):
    assert [life.endpoint[step]["type"] for step in ("up", "l4", "t4")] == [CARDS["t4"], CARDS["l4"], CARDS["t4"]]
    assert len({shown["CreationTime"] for shown in life.endpoint.values()}) == 1
    assert life.endpoint["t4"]["model"] == life.endpoint["up"]["model"] != life.endpoint["l4"]["model"]  # named for what it is
    said = life.ran["t4"].stdout
    assert re.search(r"~ 2 updated\n +\+-4 replaced\n +6 changes\. 1\d unchanged", said), said  # nothing else is touched
    assert life.configs == {"up": 1, "l4": 1, "t4": 1}  # the old one goes last, and goes
    assert life.scaling == {"up": (1, 1), "l4": (1, 1), "t4": (1, 1)}  # which another type has to be without, in between
    assert life.steady["whole"] and life.steady["lost"] == [] and life.steady["answered"] == life.steady["sent"] > 100


def test_down_has_the_endpoint_deleted_before_the_engine_deletes_its_role(life):
    """The other way round it would stay, and bill. The engine leaves nothing that bills."""
    ran = life.ran["down"]
    assert [thing.get("kind", thing["by"]) for thing in ran.document["deleted"]] == ["engine", "endpoint"], ran.document
    assert "the rest goes once the cloud is done with it" in ran.stderr and "still there after" not in ran.stderr


def test_down_keeps_images_and_logs_and_purge_leaves_nothing(life):
    kept = {thing["kind"] for thing in life.ran["down"].document["kept"]}
    assert set(life.left["down"]) <= {"repository", "log_group"} and len(kept) == len(set(life.left["down"])) > 0
    assert life.left["purge"] == [] and life.rehearsal.verdict.exit_code == 0
    assert life.rehearsal.verdict.host_left == []


@pytest.mark.parametrize("who", ["deploy", "look", "use"])
def test_the_page_of_rights_names_what_was_asked_for_and_nothing_else(life, who):
    """What the hunt has planted is taken away again: the less usual ways are asked for too."""
    rows = load().of(who)
    assert actions(rows) <= life.asked[who] <= actions(rows, beside=True)


def test_the_local_cloud_answered_as_aws_documents(life):
    assert life.rehearsal.stage.aws.own_errors() == ()
