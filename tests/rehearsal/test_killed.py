"""A rehearsal that is killed takes everything along; the next one sweeps what only files and cgroups can leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.folders import new_folder, sweep_dead
from rehearsal.machine import kernel

pytestmark = [pytest.mark.usefixtures("bootable"), pytest.mark.timeout(300)]
NOBODY = "no machine has this name"


def until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Whether it became true within the limit."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def test_kill_9_leaves_nothing_that_runs_and_the_next_rehearsal_sweeps_the_rest(root: Path, tmp_path: Path):
    environment = {**os.environ, "FLEXSERVE_STATE": str(tmp_path), "PYTHONPATH": str(root)}
    argv = [sys.executable, "-m", "flexserve", "rehearse", "tpu-v6e"]
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        argv, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    state = tmp_path / "flexserve" / "rehearsals"
    try:
        machine_up = until(lambda: state.is_dir() and bool(kernel.inventory(state, NOBODY).loop_devices), 180)
        assert machine_up, (tmp_path / "log").read_text()[-2000:]
        before = kernel.inventory(state, NOBODY)
        assert before.processes
        assert before.namespaces
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # Two seconds on an idle machine; a busy one is given more, but everything must go by itself.
    assert until(lambda: kernel.inventory(state, NOBODY).empty(), 20), kernel.inventory(state, NOBODY)
    (folder,) = state.iterdir()
    assert list(folder.glob("stage/machines/machines/*"))  # the disk is still there
    sweep_dead(state)
    assert not list(folder.glob("stage/machines/machines/*"))
    assert (folder / "commands.log").exists() or (folder / "project").exists()  # what explains it is kept


def test_a_rehearsal_that_runs_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLEXSERVE_STATE", str(tmp_path))
    folder, lock = new_folder("tpu-v6e")
    disk = folder / "stage" / "machines" / "machines" / "vm" / "disk.img"
    disk.parent.mkdir(parents=True)
    disk.write_text("in use")
    sweep_dead(folder.parent)
    assert disk.exists()
    lock.close()
    sweep_dead(folder.parent)
    assert not disk.exists()
