"""One machine from power-on to a served chat: installed, pulled, run as the boot script will do it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rehearsal.contracts import MachineSpec
from rehearsal.machine.booted import BootedMachine
from rehearsal.machine.fakes import hub
from rehearsal.machine.room import MachineRoom
from tests.machine.guest import TestGuest, eventually

SCRIPT = r"""#!/bin/bash
say() { curl -sf -H Metadata-Flavor:Google -X PUT --data "$2" \
  "http://metadata.google.internal/computeMetadata/v1/instance/guest-attributes/flexserve/$1"; }
trap 'say failed "line $LINENO"' ERR
set -eE
echo "the script runs as $(id -un)"
say booted yes
if ! command -v docker; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io
fi
say docker "$(docker info --format '{{.Driver}}')"
docker pull -q @IMAGE@
mkdir -p /models && cd /models
hub=https://huggingface.co/google/gemma-4-E2B-it/resolve/main
for file in config.json model.safetensors; do [ -s $file ] || curl -sfL -o $file $hub/$file; done
token=$(curl -sf -H Metadata-Flavor:Google \
  http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token | jq -r .access_token)
secret=$(curl -sf -H "Authorization: Bearer $token" \
  https://secretmanager.googleapis.com/v1/projects/p-1/secrets/hf-token/versions/latest:access | jq -r .payload.data | base64 -d)
say secret "${#secret}"
docker inspect vllm >/dev/null 2>&1 || docker run -d --name vllm --privileged --net host --shm-size 10g \
  -v /dev/shm:/dev/shm -v /models:/models:ro --restart unless-stopped \
  @IMAGE@ vllm serve /models --served-model-name gemma --max-model-len 8192 --port 8000
until curl -sf http://127.0.0.1:8000/health; do sleep 0.2; done
say state "serving $(cat /proc/sys/kernel/random/boot_id)"
"""


@dataclass
class Served:
    machine: BootedMachine
    guest: TestGuest
    image: str


@pytest.fixture(scope="module")
def served(room: MachineRoom) -> Iterator[Served]:
    image = f"vllm/vllm-tpu@{room.images.push('vllm/vllm-tpu', 'v0.27.0')}"
    guest = TestGuest(SCRIPT.replace("@IMAGE@", image))
    guest.secret = "hf_a_test_token"
    machine = room(MachineSpec("serve", guest, disk_gb=200))
    assert isinstance(machine, BootedMachine)
    machine.start()
    try:
        guest.wait_reported("flexserve/state", 120)
    except TimeoutError:
        pytest.fail(f"{guest.reported}\n{machine.log()[-4000:]}")
    yield Served(machine, guest, image)
    machine.delete()
    assert machine.inventory().empty()


def ask(machine: BootedMachine, method: str, path: str, body: object = None) -> tuple[int, str]:
    """One HTTP request over a connection made in the machine's network."""
    with socket.socket(fileno=machine.connect(8000)) as channel:
        channel.settimeout(20)
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        channel.sendall(head.encode() + data)
        answer = b""
        while piece := channel.recv(65536):
            answer += piece
    top, _, rest = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), rest.decode()


def test_googles_runner_ran_the_script_and_the_console_has_its_output(served: Served) -> None:
    log = served.machine.log()
    assert "google_metadata_script_runner" in log
    assert "startup-script: the script runs as root" in log


def test_docker_came_from_the_machines_own_repository(served: Served) -> None:
    assert served.guest.reported["flexserve/docker"] == "overlay2"


def test_the_secret_came_by_the_machines_identity(served: Served) -> None:
    assert served.guest.reported["flexserve/secret"] == str(len(served.guest.secret))


def test_a_chat_through_a_connection_from_outside_holds_the_nonce(served: Served) -> None:
    messages = [{"role": "user", "content": "Repeat this word and nothing else: n0nce-77aa"}]
    status, body = ask(served.machine, "POST", "/v1/chat/completions", {"model": "gemma", "messages": messages})
    assert status == 200, body
    assert "n0nce-77aa" in json.loads(body)["choices"][0]["message"]["content"]


def test_models_and_metrics(served: Served) -> None:
    status, body = ask(served.machine, "GET", "/v1/models")
    assert (status, json.loads(body)["data"][0]["max_model_len"]) == (200, 8192)
    status, body = ask(served.machine, "GET", "/metrics")
    assert status == 200
    assert "vllm:generation_tokens_total" in body


def test_nothing_listens_on_another_port(served: Served) -> None:
    with pytest.raises(ConnectionRefusedError):
        os.close(served.machine.connect(8001))


def test_the_disk_has_the_size_that_was_asked_for(served: Served) -> None:
    ran = served.machine.exec(["df", "--output=size", "-BG", "/"])
    assert 190 <= int(ran.stdout.split()[1].rstrip("G")) <= 200


def test_a_flag_that_vllm_lacks_ends_the_container_with_2(served: Served) -> None:
    ran = served.machine.exec(["docker", "run", "--rm", served.image, "vllm", "serve", "/m", "--max-modle-len", "1"], timeout=60)
    assert ran.returncode == 2
    assert "unrecognized arguments: --max-modle-len" in ran.stderr


def test_the_port_of_a_running_server_is_taken(served: Served) -> None:
    run = ["docker", "run", "--rm", "--net", "host", "-v", "/models:/m:ro", served.image, "vllm", "serve", "/m"]
    ran = served.machine.exec(run, timeout=60)
    assert ran.returncode == 1
    assert "Address already in use" in ran.stderr


def test_a_throttled_registry_says_so_through_docker(served: Served, room: MachineRoom) -> None:
    room.images.push("vllm/another", "v1")
    room.behaviour.faults.registry = "throttled"
    ran = served.machine.exec(["docker", "pull", "vllm/another:v1"], timeout=60)
    room.behaviour.faults.registry = ""
    assert ran.returncode == 1
    assert "toomanyrequests: You have reached your unauthenticated pull rate limit" in ran.stderr
    assert served.machine.exec(["docker", "pull", "vllm/another:v1"], timeout=60).returncode == 0


def test_a_package_mirror_that_is_down(served: Served, room: MachineRoom) -> None:
    room.behaviour.faults.packages = "down"
    ran = served.machine.exec(["apt-get", "install", "-y", "--reinstall", "zstd"], timeout=60)
    room.behaviour.faults.packages = ""
    assert ran.returncode == 100
    assert "Failed to fetch" in ran.stderr


def test_a_download_that_is_cut_can_be_resumed(served: Served, room: MachineRoom) -> None:
    room.behaviour.faults.hub = "cut"
    url = "https://huggingface.co/google/gemma-4-E4B-it/resolve/main/model.safetensors"
    get = ["curl", "-sSfL", "-C", "-", "-o", "/root/weights", url]
    first = served.machine.exec(get, timeout=60)
    second = served.machine.exec(get, timeout=60)
    room.behaviour.faults.hub = ""
    assert first.returncode in (18, 35, 56), first
    assert second.returncode == 0
    ran = served.machine.exec(["sha256sum", "/root/weights"])
    assert ran.stdout.split()[0] == hashlib.sha256(hub.content("google/gemma-4-E4B-it", "model.safetensors")).hexdigest()


def test_a_server_that_dies_at_the_first_chat_comes_back_by_itself(served: Served, room: MachineRoom) -> None:
    room.behaviour.faults.vllm = "crash-at-chat"
    messages = [{"role": "user", "content": "hello"}]
    with pytest.raises((ConnectionError, IndexError)):
        ask(served.machine, "POST", "/v1/chat/completions", {"messages": messages})
    room.behaviour.faults.vllm = ""
    eventually(lambda: restarts(served.machine) >= 1)
    eventually(lambda: healthy(served.machine))


def restarts(machine: BootedMachine) -> int:
    return int(machine.exec(["docker", "inspect", "-f", "{{.RestartCount}}", "vllm"]).stdout)


def healthy(machine: BootedMachine) -> bool:
    try:
        return ask(machine, "GET", "/health")[0] == 200
    except (ConnectionError, IndexError):
        return False


def test_power_cut_and_the_same_disk_again(served: Served) -> None:
    before = served.guest.reported.pop("flexserve/state")
    served.machine.power_cut()
    assert not served.machine.running()
    left = served.machine.inventory()
    assert not (left.processes or left.mounts or left.loop_devices or left.namespaces)
    with pytest.raises(ConnectionRefusedError):
        served.machine.connect(8000)
    served.machine.start()
    assert served.guest.wait_reported("flexserve/state", 90) != ""
    assert before.startswith("serving")
    containers = served.machine.exec(["docker", "ps", "-q"]).stdout.split()
    assert len(containers) == 1
    assert ask(served.machine, "GET", "/health")[0] == 200


def test_reboot_from_outside_and_poweroff_from_inside(served: Served) -> None:
    served.guest.reported.pop("flexserve/state", None)
    served.machine.reboot()
    served.guest.wait_reported("flexserve/state", 90)
    assert not served.guest.off.is_set()
    served.machine.exec(["sh", "-c", "systemctl poweroff; sleep 30"], timeout=40)
    assert served.guest.off.wait(40)
    eventually(lambda: not served.machine.running())
