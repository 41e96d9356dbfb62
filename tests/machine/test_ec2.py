"""A spot machine really booted: the real cloud-init runs the real stub, systemd runs the server and the end."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from rehearsal.contracts import MachineSpec
from rehearsal.machine import builds
from rehearsal.machine.booted import BootedMachine
from rehearsal.machine.fakes import hub
from rehearsal.machine.room import MachineRoom
from startup.phases import BootStatus, parse
from startup.render import render
from startup.spec import Ec2Boot
from tests.machine.ec2 import TestEc2Guest
from tests.machine.guest import eventually
from tests.startup.specs import SPOT

TOKEN = "hf_" + "SENTINELsentinel42"
KEY = "0123456789ab-torch2.12.0-cu132-sm75-py312-patch1"


@dataclass
class Served:
    machine: BootedMachine
    guest: TestEc2Guest

    def status(self) -> BootStatus | None:
        """As SSM would read it: the files."""
        done = self.machine.exec(["sh", "-c", 'cd /var/lib/flexserve && for f in state phase-*; do echo "$f $(cat $f)"; done'])
        return parse(dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line))

    def put(self, spec) -> str:  # type: ignore[no-untyped-def]
        rendered = render(spec)
        self.guest.objects["k3j9x2/script"] = rendered.script
        return rendered.sha256


def spec_of(deadline: int):  # type: ignore[no-untyped-def]
    ec2 = Ec2Boot("us-east-1", "fs-k3j9x2", "k3j9x2/script", "builds/", KEY, deadline, swap_gb=16)
    return replace(SPOT, ec2=ec2, model_revision=hub.revision(SPOT.model))


@pytest.fixture(scope="module")
def served(room: MachineRoom) -> Iterator[Served]:
    spec = spec_of(int(time.time()) + 4 * 3600)
    objects = {f"builds/{KEY}/{name}": data for name, data in builds.stand_in().files.items()}
    guest = TestEc2Guest(render(spec).stub, objects, TOKEN)
    machine = room(MachineSpec("i-0123456789abcdef0", guest, 60, flavour="ec2"))
    assert isinstance(machine, BootedMachine)
    found = Served(machine, guest)
    found.put(spec)
    machine.start()
    try:
        eventually(lambda: (s := _status(found)) is not None and s.state in ("serving", "failed"), 400)
        yield found
    finally:
        machine.delete()


def _status(found: Served) -> BootStatus | None:
    try:
        return found.status()
    except (RuntimeError, TimeoutError):
        return None


def test_it_serves(served: Served) -> None:
    status = served.status()
    assert status is not None
    assert (status.state, status.cause) == ("serving", ""), served.machine.log()[-6000:]
    assert {phase.name: phase.result for phase in status.phases} == dict.fromkeys(
        ("host", "driver", "token", "build", "weights", "patch", "load", "compile", "serving"), "done"
    )
    unit = served.machine.exec(["systemctl", "show", "flexserve-vllm.service", "--property=ActiveState,NRestarts"])
    assert "ActiveState=active\n" in unit.stdout and "NRestarts=0" in unit.stdout


def test_cloud_init_ran_the_user_data_and_nothing_else_did(served: Served) -> None:
    done = served.machine.exec(["cloud-init", "status", "--wait", "--long"], timeout=60)
    assert "status: done" in done.stdout, done.stdout
    assert served.machine.exec(["systemctl", "is-enabled", "google-startup-scripts.service"]).stdout.strip() == "masked"


def test_the_end_is_set_for_the_absolute_time(served: Served) -> None:
    timer = served.machine.exec(
        ["systemctl", "show", "flexserve-deadline.timer", "--property=TimersCalendar,Persistent,ActiveState"]
    )
    assert "ActiveState=active" in timer.stdout and "UTC" in timer.stdout, timer.stdout


def test_the_metadata_service_wants_a_session(served: Served) -> None:
    asked = served.machine.exec(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://169.254.169.254/latest/meta-data/"])
    assert asked.stdout == "401"


def test_neither_token_nor_keys_are_left(served: Served) -> None:
    places = "/run /var/lib /etc /opt /tmp /root /var/log"
    tokens = "SENTINELsentinel42|role-secret-key|role-session-token"
    hunt = f"grep -rlE --exclude=swap '{tokens}' {places} 2>/dev/null"  # the swap file is 16 GiB of nothing
    assert served.machine.exec(["sh", "-c", hunt]).stdout == ""


def test_a_changed_script_reaches_the_live_machine(served: Served) -> None:
    spec = spec_of(int(time.time()) + 4 * 3600)
    sha = served.put(replace(spec, vllm_options=(*spec.vllm_options, "--max-num-seqs", "8")))
    served.machine.exec(["bash", "/var/lib/flexserve/stub", "again", sha], timeout=60)
    status = served.status()
    assert status is not None and (status.state, status.script) == ("serving", sha)
    running = served.machine.exec(["pgrep", "-af", "vllm.server"]).stdout.splitlines()
    assert len(running) == 1 and "--max-num-seqs 8" in running[0]
    assert hashlib.sha256(served.guest.objects["k3j9x2/script"]).hexdigest() == sha


def test_a_reboot_serves_again_by_itself(served: Served) -> None:
    before = served.status()
    assert before is not None
    served.machine.reboot()

    def anew() -> BootStatus | None:
        status = _status(served)
        return status if status and status.boot_id != before.boot_id and status.state == "serving" else None

    after = eventually(anew, 400)
    assert isinstance(after, BootStatus)
    results = {phase.name: phase.result for phase in after.phases}
    assert (results["build"], results["weights"], results["load"]) == ("skipped", "skipped", "done")


def test_a_reclaim_lets_running_requests_end_and_nobody_new_in(served: Served) -> None:
    open_before = served.machine.connect(8000)
    served.guest.notice = json.dumps({"action": "terminate", "time": "2026-11-30T03:04:05Z"})
    eventually(lambda: (s := _status(served)) is not None and s.state == "reclaimed")
    status = served.status()
    assert status is not None and status.cause.startswith("reclaimed at 03:04 UTC")
    with pytest.raises(ConnectionRefusedError):
        served.machine.connect(8000)
    with socket.socket(fileno=open_before) as channel:
        channel.settimeout(20)
        channel.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert channel.recv(64).startswith(b"HTTP/1.1 200")


def test_the_end_turns_it_off(served: Served) -> None:
    served.machine.exec(["systemctl", "start", "--no-block", "flexserve-deadline.service"])
    assert served.guest.off.wait(120)
