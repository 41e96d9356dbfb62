"""What is left on this host when a run is killed, and what the sweep takes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.machine import kernel
from rehearsal.machine.room import MachineRoom
from rehearsal.machine.sweep import locked, sweep
from tests.machine.guest import eventually

NOBODY = "no machine has this name"
RUNNER = """
import sys, threading, time
from pathlib import Path
from rehearsal.contracts import MachineSpec
from rehearsal.machine.room import MachineRoom
from tests.machine.guest import TestGuest

guest = TestGuest("#!/bin/sh\\ncurl -s -H Metadata-Flavor:Google -X PUT --data up "
                  "http://metadata/computeMetadata/v1/instance/guest-attributes/flexserve/state\\n")
room = MachineRoom(Path(sys.argv[1])).__enter__()
machine = room(MachineSpec("serve", guest, disk_gb=2))
thread = threading.Thread(target=machine.start)  # as a request's thread does, which then ends
thread.start()
thread.join()
guest.wait_reported("flexserve/state", 60)
print(machine.ident, flush=True)
time.sleep(600)
"""


def test_kill_9_of_the_runner_takes_the_machine_with_it(room: MachineRoom, tmp_path: Path) -> None:
    assert room  # a machine can be booted here
    with subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        ident = runner.stdout.readline().strip()
        folder = tmp_path / "machines" / "serve"
        running = kernel.inventory(folder, ident)
        assert running.processes and running.loop_devices and running.namespaces
        runner.send_signal(signal.SIGKILL)

    def gone() -> bool:
        left = kernel.inventory(folder, ident)
        return not (left.processes or left.mounts or left.loop_devices or left.namespaces)

    eventually(gone, 10)
    sweep(tmp_path / "machines")
    assert kernel.inventory(folder, ident).empty()
    assert not folder.exists()


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Path]:
    """A machine's folder of a run that is over, with a process, a mount and a loop device left in it."""
    if os.geteuid() != 0:
        pytest.skip("needs root for mounts and loop devices")
    folder = tmp_path / "machines" / "left"
    (folder / "mnt").mkdir(parents=True)
    yield folder
    sweep(tmp_path / "machines")
    assert not folder.exists()


def test_a_planted_process_is_seen_and_swept(planted: Path) -> None:
    process = subprocess.Popen(["sleep", "300"], cwd=planted)
    try:
        eventually(lambda: list(kernel.inventory(planted, NOBODY).processes) == [process.pid])
        sweep(planted.parent)
        assert process.wait(10) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
    assert kernel.inventory(planted, NOBODY).empty()


def test_a_planted_mount_and_loop_device_are_seen_and_swept(planted: Path) -> None:
    image = planted / "disk.img"
    with image.open("wb") as file:
        file.truncate(8 * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(planted / "mnt")], check=True)
    found = kernel.inventory(planted, NOBODY)
    assert list(found.mounts) == [str(planted / "mnt")]
    assert len(found.loop_devices) == 1
    sweep(planted.parent)
    assert kernel.inventory(planted, NOBODY).empty()


def test_a_planted_cgroup_is_seen_and_swept(room: MachineRoom) -> None:
    assert room
    with locked():  # a run beside this one sweeps too
        bases = list(kernel.cgroup_bases()) or [_new_base()]
        (bases[0] / "planted-0000").mkdir(parents=True)
        assert [path.name for path in kernel.cgroups("planted-0000")] == ["planted-0000"]
    sweep(Path("/nonexistent"))
    assert not list(kernel.cgroups("planted-0000"))


def _new_base() -> Path:
    line = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":pids:" in line or line.startswith("0::"))
    _, controllers, path = line.split(":", 2)
    top = Path("/sys/fs/cgroup") / controllers if controllers else Path("/sys/fs/cgroup")
    return top / path.strip("/") / "rehearsal"


def test_another_runs_busy_cgroup_is_left_alone(room: MachineRoom) -> None:
    assert room
    process = subprocess.Popen(["sleep", "600"])
    try:
        with locked():
            base = next(iter(kernel.cgroup_bases()), None) or _new_base()
            busy = base / "busy-0000"
            busy.mkdir(parents=True, exist_ok=True)
            usable = base.parent.name != "cpuset" and "cpuset" not in str(base)
            if usable:
                (busy / "cgroup.procs").write_text(str(process.pid))
        if usable:
            sweep(Path("/nonexistent"))
            assert busy.is_dir()
    finally:
        process.kill()
        process.wait()
    time.sleep(0.1)
    sweep(Path("/nonexistent"))
    assert not busy.exists()
