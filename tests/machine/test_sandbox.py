"""The sandbox: the same script and network stand-ins, without root, systemd or dockerd. Run as this user, root or not."""

from __future__ import annotations

import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.contracts import MachineSpec
from rehearsal.machine.room import MachineRoom
from rehearsal.machine.sandbox.machine import SandboxMachine, lacking
from tests.machine.guest import TestGuest, eventually

SCRIPT = r"""#!/bin/bash
say() { curl -sf -H Metadata-Flavor:Google -X PUT --data "$2" \
  "http://metadata.google.internal/computeMetadata/v1/instance/guest-attributes/flexserve/$1"; }
trap 'say failed "line $LINENO"' ERR
set -eE
command -v dockerd || { apt-get -q update; apt-get -q -y install --no-install-recommends docker.io; }
systemctl enable --now docker
docker info
docker image inspect @IMAGE@ >/dev/null || docker pull @IMAGE@
mkdir -p /var/lib/flexserve/models && cd /var/lib/flexserve/models
hub=https://huggingface.co/google/gemma-4-E2B-it/resolve/main
for file in config.json model.safetensors; do [ -s $file ] || curl -sfL -o $file $hub/$file; done
docker inspect --type container vllm >/dev/null || docker run --detach --name vllm --label a.b=c --restart unless-stopped \
  --volume /var/lib/flexserve/models:/models/m:ro --env HF_HUB_OFFLINE=1 --privileged --net host \
  @IMAGE@ vllm serve /models/m --served-model-name gemma --port 8000
until curl -sf http://127.0.0.1:8000/health; do sleep 0.2; done
say state serving
"""


@dataclass
class Sandbox:
    room: MachineRoom
    machine: SandboxMachine
    guest: TestGuest


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    if why := lacking():
        pytest.skip("no sandbox here: " + "; ".join(why))
    with MachineRoom(tmp_path_factory.mktemp("sandbox"), kind="sandbox") as room:
        assert room.kind == "sandbox"
        image = f"vllm/vllm-tpu@{room.images.push('vllm/vllm-tpu', 'v0.27.0')}"
        guest = TestGuest(SCRIPT.replace("@IMAGE@", image))
        machine = room(MachineSpec("serve", guest, disk_gb=200))
        assert isinstance(machine, SandboxMachine)
        machine.start()
        try:
            guest.wait_reported("flexserve/state", 120)
        except TimeoutError:
            pytest.fail(f"{guest.reported}\n{machine.log()[-3000:]}")
        yield Sandbox(room, machine, guest)
    assert room.inventory().empty(), room.inventory()


def ask(machine: SandboxMachine, text: str) -> str:
    with socket.socket(fileno=machine.connect(8000)) as channel:
        channel.settimeout(20)
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        channel.sendall(head.encode() + body)
        answer = b""
        while piece := channel.recv(65536):
            answer += piece
    return answer.decode()


def test_it_serves_and_says_that_it_is_a_sandbox(sandbox: Sandbox) -> None:
    assert sandbox.machine.kind == "sandbox"
    assert "n0nce-41" in ask(sandbox.machine, "Say n0nce-41")


def test_a_port_that_nobody_listens_on(sandbox: Sandbox) -> None:
    with pytest.raises(ConnectionRefusedError):
        os.close(sandbox.machine.connect(8001))


def test_what_the_script_wrote_is_not_on_this_host(sandbox: Sandbox) -> None:
    assert sandbox.machine.exec(["ls", "/var/lib/flexserve/models"]).stdout.split() == ["config.json", "model.safetensors"]
    assert not Path("/var/lib/flexserve/models/model.safetensors").exists()


def test_docker_was_installed_by_the_script(sandbox: Sandbox) -> None:
    ran = sandbox.machine.exec(["sh", "-c", "command -v dockerd"])
    assert ran.stdout.strip() == str(sandbox.machine.commands / "dockerd")


def test_the_operators_registry_knows_the_digest(sandbox: Sandbox) -> None:
    digest = sandbox.room.images.push("vllm/vllm-tpu", "v0.27.0")
    url = f"{sandbox.room.images.url}/v2/vllm/vllm-tpu/manifests/v0.27.0"
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=5) as reply:
        assert reply.headers["Docker-Content-Digest"] == digest


def test_docker_refuses_in_dockers_words(sandbox: Sandbox) -> None:
    ran = sandbox.machine.exec(["docker", "pull", "vllm/nothing:v1"])
    assert (ran.returncode, "manifest unknown" in ran.stderr) == (1, True)
    ran = sandbox.machine.exec(["docker", "logs", "--timestamps", "vllm"])
    assert "Application startup complete." in ran.stdout
    document = json.loads(sandbox.machine.exec(["docker", "inspect", "--type", "container", "vllm"]).stdout)[0]
    assert (document["State"]["Status"], document["Config"]["Labels"], document["RestartCount"]) == ("running", {"a.b": "c"}, 0)


def test_a_server_that_dies_is_started_again(sandbox: Sandbox) -> None:
    sandbox.room.behaviour.faults.vllm = "crash-at-chat"
    assert ask(sandbox.machine, "hello") == ""
    sandbox.room.behaviour.faults.vllm = ""

    def again() -> bool:
        try:
            return "n0nce-42" in ask(sandbox.machine, "Say n0nce-42")
        except ConnectionError:
            return False

    eventually(again)


def test_power_cut_and_again_and_off_from_inside(sandbox: Sandbox) -> None:
    sandbox.guest.reported.clear()
    sandbox.machine.power_cut()
    left = sandbox.machine.inventory()
    assert not (left.processes or left.mounts or left.namespaces)
    sandbox.machine.start()
    sandbox.guest.wait_reported("flexserve/state", 60)
    assert "n0nce-43" in ask(sandbox.machine, "Say n0nce-43")
    sandbox.machine.exec(["shutdown", "-h", "now"])
    assert sandbox.guest.off.wait(30)
