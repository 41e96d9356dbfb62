"""One life of `g5g-spot`, with everything that an operator does in it, a reclaim, and a second machine."""

from __future__ import annotations

import base64
import json
import re
import secrets
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud.aws.ec2 import bodies
from rehearsal.faults.ec2_spot import notice
from rehearsal.hunt import ProcessWatch, in_bytes, in_files
from rehearsal.product import Ran
from rehearsal.run import Rehearsal
from rehearsal.targets.ec2_spot import BUCKET, COMMIT, Ec2SpotStage
from tests.infra.workshop import Ended

pytestmark = [
    pytest.mark.usefixtures("bootable", "session_manager"),
    pytest.mark.timeout(900),
]

SERVERS = ("pgrep", "-af", "rehearsal.machine.vllm.server")
WITHOUT_SESSION = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://169.254.169.254/latest/meta-data/")
SIX_HOURS_S = 6 * 3600
END_S = 300.0  # past the notice's two minutes, and past the instance's shutting down


@dataclass
class Life:
    """What was seen, step by step."""

    ran: dict[str, Ran] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    instance: dict[str, str] = field(default_factory=dict)
    servers: dict[str, list[str]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    hunts: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    groups: list[dict[str, Any]] = field(default_factory=list)
    imds: str = ""
    built: list[str] = field(default_factory=list)
    machines: int = -1
    scripts: list[bytes] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)
    schedules: list[str] = field(default_factory=list)
    lifecycles: list[str] = field(default_factory=list)
    request_finished: bool = False
    nobody_new: bool = False
    rehearsal: Rehearsal = None  # type: ignore[assignment]
    left: list[object] = field(default_factory=list)


@pytest.fixture(scope="module")
def life(root: Path) -> Iterator[Life]:
    """Up, used, changed, searched, reclaimed, up again, taken away."""
    sentinel, control = ("hf_" + secrets.token_hex(16) for _ in range(2))
    seen = Life()
    rehearsal = seen.rehearsal = Rehearsal(root, "g5g-spot", secret=sentinel, say=lambda line: print(line, file=sys.stderr))
    with rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, Ec2SpotStage)
        stage.behaviour.holds.clear()  # nothing here is of how long it takes; a late role is of `test_builder_ec2_spot`
        stage.aws.delay_iam(0.0)
        seen.ran["build"] = rehearsal.step("build", "--yes")
        seen.ran["build again"] = rehearsal.step("build", "--yes")
        seen.built = sorted(key.rpartition("/")[2] for key in stage.build())
        seen.machines = len(stage.aws.machines())
        with ProcessWatch(sentinel, control) as watch:
            seen.ran["up"] = rehearsal.step("up", "--yes")
            name, machine = _look(seen, stage, "up")
            machine.exec(["sh", "-c", f"sleep 1 # {control}"])
        seen.hunts["processes"] = bool(watch.seen[sentinel]), bool(watch.seen[control])
        seen.imds = machine.exec(WITHOUT_SESSION).stdout
        seen.groups = stage.aws.call("ec2", "DescribeSecurityGroups")["SecurityGroups"]
        seen.ran["status"] = rehearsal.step("status", "--boot")
        seen.answers["up"] = rehearsal.ask()
        seen.ran["smoke"] = rehearsal.step("smoke")
        stage.aws.publish_images()  # a newer host image comes out: the live machine keeps its own
        rehearsal.change("serving.max_num_seqs=4")
        rehearsal.change("serving.text_only=true")
        rehearsal.change("window=6h")
        rehearsal.change("target.zones=[us-east-1b]")
        seen.ran["changed"] = rehearsal.product.pulumi("up", "-s", "g5g-spot", "--yes", "--skip-preview")
        seen.ran["status changed"] = rehearsal.step("status", "--wait")
        _look(seen, stage, "changed")
        seen.scripts = [data for key, data in stage.aws.stored(BUCKET).items() if key.endswith("/script")]
        _hunt(seen, stage, name, machine, sentinel, control)
        _reclaim(seen, stage, name, machine)
        seen.ran["again"] = rehearsal.step("up", "--yes")
        _look(seen, stage, "again")
        seen.ends = {name: ends - stage.aws.clock.now() for name, ends in stage.aws.schedules().items()}
        seen.schedules = [stage.aws.call("scheduler", "GetSchedule", Name=name)["Target"]["Input"] for name in seen.ends]
        seen.lifecycles = [i.get("InstanceLifecycle", "") for i in _instances(stage)]
        seen.ran["down"] = rehearsal.step("down", "--yes")
        rehearsal.verdict.read(stage.cloud.ledger, rehearsal._before)
        seen.left = list(rehearsal.verdict.left)
    yield seen


def _look(seen: Life, stage: Ec2SpotStage, step: str) -> tuple[str, Any]:
    """The one instance, the servers on it, and how often its association has run."""
    ((name, machine),) = stage.aws.machines().items()
    seen.instance[step] = name
    seen.servers[step] = machine.exec(SERVERS).stdout.splitlines()
    runs = 0
    for association in stage.aws.call("ssm", "ListAssociations")["Associations"]:
        found = stage.aws.call("ssm", "DescribeAssociationExecutions", AssociationId=association["AssociationId"])
        runs += len(found["AssociationExecutions"])
    seen.runs[step] = runs
    return name, machine


def _instances(stage: Ec2SpotStage) -> list[dict[str, Any]]:
    """What EC2 tells of the machines that are not gone."""
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    found = stage.aws.call("ec2", "DescribeInstances", Filters=running)["Reservations"]
    return [instance for reservation in found for instance in reservation["Instances"]]


def _reclaim(seen: Life, stage: Ec2SpotStage, name: str, machine: Any) -> None:
    """The notice while a request runs; then the end, two minutes later on the cloud's clock."""
    running = notice(stage, name)
    try:
        socket.socket(fileno=machine.connect(8000)).close()
    except ConnectionRefusedError:
        seen.nobody_new = True
    seen.ran["status noticed"] = seen.rehearsal.step("status")
    running.over.wait(60)
    seen.request_finished = running.finished
    stage.aws.clock.advance(END_S)
    seen.ran["status reclaimed"] = seen.rehearsal.step("status")
    seen.ran["tunnel reclaimed"] = seen.rehearsal.product.flexserve("tunnel", "-s", "g5g-spot", "--port", "0", "--exec", "true")


def _hunt(seen: Life, stage: Ec2SpotStage, name: str, machine: Any, sentinel: str, control: str) -> None:
    """Search every place for the sentinel, and for a control that is planted there first."""
    folder = seen.rehearsal.folder
    places = {
        "state": folder / "state",
        "pulumi home": folder / "pulumi-home",
        "commands log": folder / "commands.log",
        "project": folder / "project",
        "machine's disk": machine.folder / "disk.img",
        "console": machine.folder / "out",
    }
    machine.exec(["sh", "-c", f"echo {control} | gzip | base64 >/var/planted; sync"])
    for place in ("state", "pulumi home", "project", "console"):
        (places[place] / "planted").write_text(json.dumps({"x": control}))
    with places["commands log"].open("a") as log:
        log.write(control + "\n")
    for place, path in places.items():
        seen.hunts[place] = bool(in_files(path, sentinel)), bool(in_files(path, control))
    _plant_in_cloud(stage, name, control)
    for place, data in _cloud(stage, name).items():
        seen.hunts[place] = in_bytes(data, sentinel), in_bytes(data, control)
    requests = json.dumps(list(stage.aws.requests()), default=str).encode()
    seen.hunts["requests"] = in_bytes(requests, sentinel), in_bytes(requests, stage.aws.account)


def _plant_in_cloud(stage: Ec2SpotStage, name: str, control: str) -> None:
    aws = stage.aws
    parameters = {"commands": [f"true # {control}"]}
    aws.call("s3", "PutObject", Bucket=BUCKET, Key="planted", Body=base64.b64encode(control.encode()))
    aws.call("ec2", "CreateTags", Resources=[name], Tags=[{"Key": "planted", "Value": control}])
    aws.call("ssm", "SendCommand", InstanceIds=[name], DocumentName="AWS-RunShellScript", Parameters=parameters)
    targets = [{"Key": "InstanceIds", "Values": [name]}]
    aws.call("ssm", "CreateAssociation", Name="AWS-RunShellScript", Targets=targets, Parameters=parameters)
    with aws.state.lock:
        found: Any = bodies.find(aws.state, name)
        found.user_data = base64.b64encode(base64.b64decode(str(found.user_data)) + f"\n# {control}\n".encode()).decode()


def _cloud(stage: Ec2SpotStage, name: str) -> dict[str, bytes]:
    """What the cloud keeps, as bytes, by place."""
    aws = stage.aws

    def shown(service: str, operation: str, **params: object) -> bytes:
        return json.dumps(aws.call(service, operation, **params), default=str).encode()

    associations = [a["AssociationId"] for a in aws.call("ssm", "ListAssociations")["Associations"]]
    return {
        "user data": aws.guest(name).user_data(),
        "objects": b"\n".join(aws.stored(BUCKET).values()),
        "tags": shown("ec2", "DescribeInstances"),
        "commands": shown("ssm", "ListCommands") + shown("ssm", "ListCommandInvocations", Details=True),
        "associations": b"".join(shown("ssm", "DescribeAssociation", AssociationId=i) for i in associations),
    }


def test_every_command_did_what_it_should(life):
    expected = {"status noticed": 8, "status reclaimed": 8, "tunnel reclaimed": 8}
    assert {name: ran.returncode for name, ran in life.ran.items()} == {n: expected.get(n, 0) for n in life.ran}, {
        n: (r.stdout[-600:], r.stderr[-600:]) for n, r in life.ran.items() if r.returncode != expected.get(n, 0)
    }


def test_the_build_is_made_once_on_a_machine_that_is_gone_before_the_card_is_paid_for(life):
    made, again = life.ran["build"].document, life.ran["build again"].document
    phases = ("host", "checks", "toolkit", "source", "rust", "venv", "wheel", "install", "keep")
    assert made["made"] is True and {p["name"]: p["result"] for p in made["phases"]} == dict.fromkeys(phases, "done")
    assert made["manifest"]["arch_list"] == ["sm_75"] and made["manifest"]["commit"] == COMMIT
    assert again["made"] is False and again["phases"] == [] and again["manifest"] == made["manifest"]
    assert life.built == sorted(["manifest.json", made["manifest"]["archive"]]) and life.machines == 0
    (taken,) = (p for p in life.ran["status"].document["phases"] if p["name"] == "build")
    assert taken["result"] == "done"  # and the patch, which is applied to what was built, was too
    told = life.ran["status"].document["build"]
    assert (told["key"], told["builder"]) == (made["key"], None)
    assert (told["kept"]["place"], told["kept"]["bytes"]) == (made["place"], made["bytes"])


def test_the_answer_holds_the_nonce(life):
    assert life.rehearsal.verdict.nonce in life.answers["up"]


def test_status_is_serving_with_every_phase_and_the_wanted_script(life):
    status = life.ran["status"].document
    assert status["state"] == "serving"
    assert status["script"]["running"] == status["script"]["wanted"]
    assert {p["name"]: p["result"] for p in status["phases"]} == dict.fromkeys(
        ("host", "driver", "token", "build", "weights", "patch", "load", "compile", "serving"), "done"
    )
    assert status["seconds_left"] > 0 and status["cost_so_far"] >= 0


def test_a_changed_flag_reaches_the_live_machine_by_plain_pulumi(life):
    assert life.instance["changed"] == life.instance["up"]
    assert life.runs["changed"] == life.runs["up"] + 1
    counted = Ended(0, life.ran["changed"].stdout).changes()
    assert set(counted) == {"updated", "unchanged"} and counted["updated"] == 2  # the script and what hands it over
    assert len(life.servers["changed"]) == 1 and life.servers["changed"] != life.servers["up"]
    assert "--max-num-seqs 4" in life.servers["changed"][0]
    changed = life.ran["status changed"].document
    assert changed["script"]["running"] == changed["script"]["wanted"] != life.ran["status"].document["script"]["running"]
    (script,) = life.scripts
    assert b'{"image":0,"audio":0}' in script


def test_a_window_and_a_zone_are_ignored_with_a_word(life):
    said = life.ran["changed"].stdout
    assert "flexserve:window stays 4h, as the machine was created with, not 6h" in said
    assert "flexserve:target.zones stays us-east-1a" in said


def test_the_token_is_nowhere_and_the_hunt_finds_its_controls(life):
    assert {place: control for place, (_, control) in life.hunts.items()} == dict.fromkeys(life.hunts, True)
    assert {place: sentinel for place, (sentinel, _) in life.hunts.items()} == dict.fromkeys(life.hunts, False)


def test_nothing_can_come_in_and_the_metadata_service_wants_a_session(life):
    ours = [group for group in life.groups if group["GroupName"].startswith("fs-")]
    assert ours and all(group["IpPermissions"] == [] for group in ours)
    assert life.imds == "401"


def test_at_a_reclaim_the_running_request_finishes_and_nobody_new_gets_in(life):
    assert life.request_finished and life.nobody_new
    noticed = life.ran["status noticed"].document
    assert noticed["state"] == "reclaimed" and noticed["cause"].startswith("reclaimed at ")
    assert life.ran["status reclaimed"].document["state"] == "reclaimed"


def test_up_makes_a_new_machine_and_down_leaves_nothing(life):
    assert life.instance["again"] != life.instance["up"]
    assert life.ran["again"].document["state"] == "serving" and life.lifecycles == ["spot"]
    said = life.ran["again"].stderr
    assert re.search(r"this machine's clock is \d min behind the cloud's: the window counts from the cloud's", said)
    (left,) = life.ends.values()
    assert SIX_HOURS_S - 600 < left <= SIX_HOURS_S  # as the stack file says by now
    assert "updating scheduler/schedule clock" in said and "updating ssm/association script" in said
    assert [json.loads(target) for target in life.schedules] == [{"InstanceIds": [life.instance["again"]]}]
    assert life.left == [] and life.rehearsal.verdict.exit_code == 0
    assert life.rehearsal.verdict.host_left == []


def test_the_local_cloud_answered_as_aws_documents(life):
    assert life.rehearsal.stage.aws.own_errors() == ()
