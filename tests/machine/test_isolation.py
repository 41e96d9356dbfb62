"""Three small machines at once: what each may reach, and what is its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rehearsal.contracts import Completed, MachineSpec
from rehearsal.machine.booted import BootedMachine
from rehearsal.machine.room import MachineRoom
from tests.machine.guest import TestGuest, eventually

SCRIPT = """#!/bin/bash
meta=http://metadata.google.internal/computeMetadata/v1/instance
ask() { curl -sS --max-time 10 --retry 9 --retry-all-errors -H Metadata-Flavor:Google "$@"; }
name=$(ask $meta/name)
ask -X PUT --data "$name" $meta/guest-attributes/flexserve/name
"""
SECRET = "https://secretmanager.googleapis.com/v1/projects/p/secrets/s/versions/latest:access"
HUB = "https://huggingface.co/api/models/google/gemma-4-E2B-it"


@dataclass
class One:
    machine: BootedMachine
    guest: TestGuest

    def sh(self, script: str, timeout: float = 30) -> Completed:
        return self.machine.exec(["bash", "-c", script], timeout)

    def curl(self, *words: str) -> Completed:
        return self.machine.exec(["curl", "-sS", "--connect-timeout", "1", *words])


@pytest.fixture(scope="module")
def three(room: MachineRoom) -> Iterator[dict[str, One]]:
    """`open` may reach everything, `google` only Google's APIs, `closed` nothing but the metadata server."""
    ways = {"open": (True, True), "google": (False, True), "closed": (False, False)}
    made = {}
    for name, (egress, google) in ways.items():
        guest = TestGuest(SCRIPT, name=name)
        spec = MachineSpec(name, guest, disk_gb=2, egress=egress, private_google_access=google)
        machine = room(spec)
        assert isinstance(machine, BootedMachine)
        made[name] = One(machine, guest)
    for one in made.values():
        one.machine.start()
    for name, one in made.items():
        try:
            assert one.guest.wait_reported("flexserve/name", 120) == name
        except TimeoutError as error:
            raise AssertionError(f"{name}: {error}\n{one.machine.log()[-6000:]}") from error
    yield made
    for one in made.values():
        one.machine.delete()


@pytest.mark.parametrize(
    ("name", "address", "works"),
    [
        ("open", HUB, True),
        ("open", SECRET, True),
        ("open", "http://packages.rehearsal.internal/Packages", True),
        ("google", HUB, False),
        ("google", SECRET, True),
        ("google", "http://packages.rehearsal.internal/Packages", False),
        ("closed", HUB, False),
        ("closed", SECRET, False),
    ],
)
def test_what_each_may_reach(three: dict[str, One], name: str, address: str, works: bool) -> None:
    ran = three[name].curl(address)
    assert (ran.returncode == 0) is works, ran
    if not works:
        assert ran.returncode == 28, "what is cut off is silence, not a refusal"


def test_an_address_outside_is_silence_and_an_unknown_name_is_none(three: dict[str, One]) -> None:
    assert three["open"].curl("http://192.0.2.9/").returncode == 28
    assert three["open"].curl("https://example.org/").returncode == 6


def test_the_metadata_server_is_there_for_all(three: dict[str, One]) -> None:
    for name, one in three.items():
        ran = one.curl("-H", "Metadata-Flavor: Google", "http://metadata/computeMetadata/v1/instance/name")
        assert ran.stdout == name
        assert one.curl("-o", "/dev/null", "-w", "%{http_code}", "http://metadata/computeMetadata/v1/instance/name").stdout == "403"


def test_a_change_of_metadata_wakes_who_waits_for_it(three: dict[str, One]) -> None:
    one = three["closed"]
    one.guest.set("wanted", "first")
    threading.Timer(1.0, one.guest.set, ("other", "x")).start()
    threading.Timer(2.0, one.guest.set, ("wanted", "second")).start()
    url = "http://metadata/computeMetadata/v1/instance/attributes/wanted?wait_for_change=true"
    assert one.curl("-H", "Metadata-Flavor: Google", url).stdout == "second"


def test_ports_are_each_machines_own(three: dict[str, One]) -> None:
    for name, one in three.items():
        one.sh(f"mkdir -p /srv/{name}; cd /srv/{name}; echo {name} >who; setsid python3 -m http.server 8000 >/dev/null 2>&1 &")
    for name, one in three.items():
        eventually(lambda one=one: one.curl("-f", "http://10.128.0.7:8000/who").stdout.strip())
        assert one.curl("http://10.128.0.7:8000/who").stdout.strip() == name


def test_what_listens_on_loopback_only_cannot_be_reached_from_outside(three: dict[str, One]) -> None:
    one = three["open"]
    one.sh("setsid python3 -m http.server --bind 127.0.0.1 8100 >/dev/null 2>&1 &")
    eventually(lambda: one.curl("http://127.0.0.1:8100/").returncode == 0)
    with pytest.raises(ConnectionRefusedError):
        one.machine.connect(8100)


def test_a_full_disk_is_full(three: dict[str, One]) -> None:
    ran = three["open"].sh("fallocate -l 5G /var/lib/docker/big")
    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr


def test_a_command_that_takes_too_long_is_ended(three: dict[str, One]) -> None:
    one = three["google"]
    with pytest.raises(TimeoutError):
        one.machine.exec(["sh", "-c", "sleep 77 & wait"], timeout=1)
    eventually(lambda: "sleep 77" not in one.sh("ps ax").stdout)


def test_a_command_that_is_not_there(three: dict[str, One]) -> None:
    ran = three["google"].machine.exec(["no-such-command"])
    assert (ran.returncode, ran.stderr) == (127, "no-such-command: No such file or directory\n")


def test_guest_attributes_that_are_not_enabled_are_refused(three: dict[str, One]) -> None:
    one = three["google"]
    one.guest.enabled = False
    url = "http://metadata/computeMetadata/v1/instance/guest-attributes/a/b"
    ran = one.curl("-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT", "--data", "x", "-H", "Metadata-Flavor: Google", url)
    assert ran.stdout == "403"


def test_a_running_machine_has_what_the_kernel_says(three: dict[str, One]) -> None:
    found = three["open"].machine.inventory()
    assert len(found.loop_devices) == 1
    assert len(found.processes) > 5
    assert found.mounts and found.namespaces and found.cgroups
    others = three["closed"].machine.inventory()
    assert not set(found.processes) & set(others.processes)


def test_faults_of_phases_happen_when_the_phase_runs(three: dict[str, One], room: MachineRoom) -> None:
    one = three["open"]
    put = "curl -s -H Metadata-Flavor:Google -X PUT http://metadata/computeMetadata/v1/instance/guest-attributes/flexserve"
    before = one.machine.power_ons
    room.behaviour.faults.power_cut_in = "image"
    one.sh(f"""{put}/phase-packages --data '{{"result": "running"}}'; {put}/phase-image --data '{{"result": "done"}}'""")
    assert (one.machine.power_ons, room.behaviour.faults.power_cut_in) == (before, "image")
    one.guest.reported.clear()
    one.sh(f"""{put}/phase-image --data '{{"result": "running"}}'; sleep 20""")
    assert one.guest.wait_reported("flexserve/name", 60) == "open"
    assert one.machine.power_ons == before + 1
    room.behaviour.faults.disk_full_in = "weights"
    one.sh(f"""{put}/phase-weights --data '{{"result": "running"}}'""")
    eventually(lambda: one.sh("head -c 4000000 /dev/zero >/root/more").returncode != 0)
