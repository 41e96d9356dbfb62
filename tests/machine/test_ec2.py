"""A spot machine really booted: the real cloud-init runs the real stub, systemd runs the server and the end.

A changed script and a reclaim are of `rehearsal/test_life_g5g`.
"""

from __future__ import annotations

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
        """The files that SSM would read. From outside: a look that starts a process in the machine costs 30 ms of a processor."""
        folder = self.machine.file("/var/lib/flexserve")
        return parse({path.name: path.read_text() for path in [folder / "state", *folder.glob("phase-*")]})

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
    except (RuntimeError, OSError):
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


def test_the_end_turns_it_off(served: Served) -> None:
    served.machine.exec(["systemctl", "start", "--no-block", "flexserve-deadline.service"])
    assert served.guest.off.wait(120)
