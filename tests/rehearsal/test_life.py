"""One life of `tpu-v6e`, with everything that an operator does in it, by the product's own commands on a booted machine."""

from __future__ import annotations

import io
import json
import os
import secrets
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal.faults import FAULTS
from rehearsal.hold import FILE
from rehearsal.hunt import ProcessWatch, in_files, in_image_layers
from rehearsal.product import Ran
from rehearsal.run import Rehearsal
from rehearsal.targets.gce_flex import GceFlexStage
from tests.tunnel import clients

pytestmark = [pytest.mark.usefixtures("bootable"), pytest.mark.timeout(900)]

THROTTLED = FAULTS["registry-throttled"]
CONTAINERS = "docker ps -a --format '{{.ID}} {{.Status}} {{.Image}}'"


@dataclass
class Life:
    """What was seen, step by step."""

    ran: dict[str, Ran] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    instance: dict[str, str] = field(default_factory=dict)
    containers: dict[str, list[str]] = field(default_factory=dict)
    hunts: dict[str, dict[str, Any]] = field(default_factory=dict)
    rehearsal: Rehearsal = None  # type: ignore[assignment]
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    all_containers: list[str] = field(default_factory=list)
    on_hold: set[str] = field(default_factory=set)
    journal: str = ""
    env_mode: int = 0
    left_before_planting: list[object] = field(default_factory=list)
    left_after_planting: list[object] = field(default_factory=list)


@pytest.fixture(scope="module")
def life(root: Path) -> Iterator[Life]:
    """Up with a registry that refuses at first, used, changed, searched, taken away."""
    sentinel, control = ("hf_" + secrets.token_hex(16) for _ in range(2))
    seen = Life()
    rehearsal = seen.rehearsal = Rehearsal(
        root,
        "tpu-v6e",
        sets=("image.throttled_wait=3s",),
        faults=(THROTTLED,),
        secret=sentinel,
        say=lambda line: print(line, file=sys.stderr),
    )
    with rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, GceFlexStage)
        with ProcessWatch(sentinel, control) as watch:
            seen.ran["throttled"] = rehearsal.step("up", "--yes")
            seen.before = stage.google.machines()
            stage.behaviour.faults.registry = ""
            seen.ran["up"] = rehearsal.step("up", "--yes")
            seen.after = stage.google.machines()
            _, machine = _look(seen, stage, "up")
            machine.exec(["sh", "-c", f"sleep 3 # {control}"])
        seen.all_containers = machine.exec(["docker", "ps", "-aq"]).stdout.split()
        seen.on_hold = set(machine.exec(["apt-mark", "showhold"]).stdout.split())
        seen.journal = machine.exec(["journalctl", "--boot", "--output=cat"]).stdout
        seen.hunts["processes"] = {"sentinel": watch.seen[sentinel], "control": watch.seen[control]}
        seen.ran["status"] = rehearsal.step("status", "--boot")
        seen.answers["up"] = rehearsal.ask()
        seen.ran["smoke"] = rehearsal.step("smoke")
        seen.ran["clients"] = rehearsal.product.flexserve(
            "tunnel", "-s", "tpu-v6e", "--port", "0", "--exec", f"{sys.executable} {root}/tests/tunnel/clients.py", timeout=120
        )
        rehearsal.hold(60, wait=lambda _: _second_terminal(seen, machine))
        seen.ran["logs"] = rehearsal.product.flexserve("logs", "-s", "tpu-v6e")
        with socket.create_server(("127.0.0.1", 0)) as busy:
            seen.ran["busy port"] = rehearsal.step("tunnel", "--port", str(busy.getsockname()[1]), timeout=60)
        seen.ran["preview"] = rehearsal.product.pulumi("preview", "-s", "tpu-v6e", "--expect-no-changes")
        seen.ran["up again"] = rehearsal.step("up", "--yes")
        _look(seen, stage, "up again")
        rehearsal.change("serving.text_only=true")
        seen.ran["changed"] = rehearsal.step("up", "--yes")
        _look(seen, stage, "changed")
        seen.answers["changed"] = rehearsal.ask()
        seen.ran["status changed"] = rehearsal.step("status")
        rehearsal.change("window=8h")
        rehearsal.change("target.zones=[us-east5-a]")
        seen.ran["replacing"] = rehearsal.product.pulumi("up", "-s", "tpu-v6e", "--yes", "--skip-preview")
        _look(seen, stage, "replacing")
        seen.hunts |= _hunt(rehearsal, stage, machine, sentinel, control)
        seen.ran["down"] = rehearsal.step("down", "--yes")
        rehearsal.verdict.read(stage.cloud.ledger, rehearsal._before)
        seen.left_before_planting = list(rehearsal.verdict.left)
        stage.google.put_disk("left-over", "europe-west4-a")
    seen.left_after_planting = list(rehearsal.verdict.left)
    yield seen


def _second_terminal(seen: Life, machine: Any) -> None:
    """What a held rehearsal says to type is typed, in a shell whose variables lead elsewhere; then a real ssh logs in.

    The agent turns OS Login on, as on Google's machines; its modules are not in this one, so sshd does without and gets the key
    by hand.
    """
    rehearsal, key = seen.rehearsal, seen.rehearsal.folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text().strip()
    key_in = f"mkdir -p -m 700 /root/.ssh && echo '{public}' >/root/.ssh/authorized_keys"
    no_os_login = "echo UsePAM no >/etc/ssh/sshd_config.d/00-no-os-login.conf && systemctl reload ssh"
    assert machine.exec(["sh", "-c", f"{key_in} && {no_os_login}"]).returncode == 0
    ssh = (
        f"ssh -F none -i {key} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        " -o ProxyCommand='flexserve tunnel -s tpu-v6e --on-stdin --remote-port 22' root@tpu-v6e 'cat; uname -n'"
    )
    file = rehearsal.folder / FILE
    seen.env_mode = file.stat().st_mode & 0o777
    foreign = {"AWS_PROFILE": "real", "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere", "all_proxy": "http://127.0.0.1:9"}
    for name, line in {
        "held status": "flexserve status -s tpu-v6e --json",
        "held foreign": "env",
        "held ssh": f"echo through | {ssh}",
    }.items():
        argv = ["sh", "-c", f". {file}; {line}"]
        began = time.monotonic()
        done = subprocess.run(argv, env={**os.environ, **foreign}, capture_output=True, text=True, timeout=120, check=False)
        seen.ran[name] = Ran(tuple(argv), done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def _look(seen: Life, stage: GceFlexStage, step: str) -> tuple[str, Any]:
    """The instance's number in the cloud and the containers on the machine."""
    (name, machine), *others = stage.google.machines().items()
    assert not others
    _, vm = stage.google.request("GET", f"/compute/v1/{stage.google.instance_path(name)}")
    seen.instance[step] = str(vm["id"])
    seen.containers[step] = machine.exec(["sh", "-c", CONTAINERS]).stdout.splitlines()
    return name, machine


def _hunt(rehearsal: Rehearsal, stage: GceFlexStage, machine: Any, sentinel: str, control: str) -> dict[str, dict[str, Any]]:
    """Search every place for the sentinel, and for a control that is planted there first."""
    places = {
        "state": rehearsal.folder / "state",
        "pulumi home": rehearsal.folder / "pulumi-home",
        "commands log": rehearsal.folder / "commands.log",
        "project": rehearsal.folder / "project",
        "machine's disk": machine.folder / "disk.img",
        "console": machine.folder / "out",
    }
    machine.exec(["sh", "-c", f"echo {control} | gzip | base64 >/var/planted; sync"])
    for name in ("state", "pulumi home", "project", "console"):
        (places[name] / "planted").write_text(json.dumps({"x": control}))
    with places["commands log"].open("a") as log:
        log.write(control + "\n")
    found = {name: {"sentinel": in_files(path, sentinel), "control": in_files(path, control)} for name, path in places.items()}
    storage = stage.room.images.storage
    _plant_layer(storage, control)
    hit = in_image_layers(storage, sentinel, control)
    layers = {"sentinel": hit[sentinel], "control": hit[control]}
    requests = json.dumps(list(stage.google.requests()), default=str)
    return {**found, "image layers": layers, "requests": {"sentinel": [r for r in [requests] if sentinel in r], "control": ["-"]}}


def _plant_layer(storage: Path, control: str) -> None:
    """One more image layer among the registry's, with the control in a file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as layer:
        member = tarfile.TarInfo("root/.cache/token")
        member.size = len(control)
        layer.addfile(member, io.BytesIO(control.encode()))
    (storage / "planted").mkdir()
    (storage / "planted" / "data").write_bytes(packed.getvalue())


def test_every_command_did_what_it_should(life):
    expected = {"busy port": 1, "replacing": 0, "throttled": int(THROTTLED.expect_exit)}
    assert {name: ran.returncode for name, ran in life.ran.items()} == {n: expected.get(n, 0) for n in life.ran}, {
        n: r.stderr[-600:] for n, r in life.ran.items() if r.returncode != expected.get(n, 0)
    }


def test_a_throttled_pull_ends_soon_and_up_goes_on_with_the_same_machine_when_it_is_over(life):
    """A boot that failed, and what an operator does then: mend it outside, `up` again."""
    error = life.ran["throttled"].document["error"]
    assert (error["phase"], error["cause"].partition(":")[0]) == (THROTTLED.expect_text, "image-pull-limit")
    assert "image.throttled_wait" in error["cause"] and "toomanyrequests" in error["log_tail"]
    assert len(life.before) == 1 and life.after == life.before
    results = {phase["name"]: phase["result"] for phase in life.ran["up"].document["phases"]}
    assert results == {**dict.fromkeys(results, "done"), "packages": "skipped", "docker": "skipped"} | {
        name: "skipped" for name in ("token", "weights") if results[name] == "skipped"
    }
    assert len(life.all_containers) == 1
    assert {"docker.io", "containerd", "runc"} <= life.on_hold


def test_docker_is_started_before_dpkg_is_through(life):
    assert 0 < life.journal.index("Starting docker.service") < life.journal.index("target.wants/docker.socket")


def test_a_held_rehearsal_is_reached_from_a_second_terminal(life):
    assert life.ran["held status"].document["state"] == "serving"
    told = life.ran["held foreign"].stdout
    assert "AWS_PROFILE" not in told and "/nowhere" not in told
    assert life.env_mode == 0o600 and not (life.rehearsal.folder / FILE).exists()
    assert [step["command"] for step in life.rehearsal.verdict.steps].count("hold") == 1


def test_a_real_ssh_logs_in_through_the_tunnel(life):
    """Its own client, the machine's own sshd, the local cloud's firewall rule; what is typed goes there, its end too."""
    said = life.ran["held ssh"]
    assert said.stdout.splitlines()[0] == "through" and len(said.stdout.splitlines()) == 2, said.stderr


def test_the_answer_holds_the_nonce(life):
    assert life.rehearsal.verdict.nonce in life.answers["changed"]
    assert life.answers["up"]


def test_openais_client_curl_and_an_event_stream_work_through_the_tunnel(life):
    lines = [line for line in life.ran["clients"].stdout.splitlines() if line.startswith("{")]
    clients.check(json.loads(lines[-1]))


def test_status_is_serving_with_every_phase_and_the_wanted_script(life):
    status = life.ran["status"].document
    assert status["state"] == "serving"
    assert status["script"]["running"] == status["script"]["wanted"]
    assert {"packages", "docker", "token", "image", "weights", "load", "compile", "serving"} <= {
        p["name"] for p in status["phases"]
    }
    assert {p["result"] for p in status["phases"]} <= {"done", "skipped"}
    assert status["seconds_left"] > 0
    assert status["cost_so_far"] >= 0


def test_a_busy_port_is_named(life):
    assert "in use" in life.ran["busy port"].stderr + life.ran["busy port"].stdout


def test_a_second_up_changes_nothing(life):
    assert life.instance["up again"] == life.instance["up"]
    assert life.containers["up again"] == life.containers["up"] or len(life.containers["up again"]) == 1


def test_a_changed_flag_reaches_the_live_machine_in_place(life):
    assert life.instance["changed"] == life.instance["up"]
    assert len(life.containers["changed"]) == 1
    assert life.containers["changed"][0].split()[0] != life.containers["up"][0].split()[0]
    changed = life.ran["status changed"].document
    assert changed["script"]["running"] == changed["script"]["wanted"] != life.ran["status"].document["script"]["running"]


def test_a_window_and_a_zone_change_by_plain_pulumi_never_replace(life):
    assert life.instance["replacing"] == life.instance["up"]
    said = life.ran["replacing"].stdout
    assert "flexserve:window stays 4h, as the machine was created with, not 8h" in said
    assert "flexserve:target.zones stays europe-west4-a" in said


def test_the_token_is_nowhere_and_the_hunt_finds_its_controls(life):
    assert {place: bool(found["control"]) for place, found in life.hunts.items()} == dict.fromkeys(life.hunts, True)
    assert {place: list(found["sentinel"]) for place, found in life.hunts.items()} == {place: [] for place in life.hunts}


def test_nothing_is_left_and_a_planted_disk_turns_it_red(life):
    assert life.left_before_planting == []
    assert [item.name for item in life.left_after_planting] == ["left-over"]
    assert life.rehearsal.verdict.exit_code == 7
    assert "left behind" in life.rehearsal.verdict.text


def test_the_host_is_clean(life):
    assert life.rehearsal.verdict.host_left == []


def test_the_local_cloud_answered_as_google_documents(life):
    assert life.rehearsal.stage.google.own_errors() == ()
