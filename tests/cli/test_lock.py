"""A stack that is locked: who holds it, and the lock of a killed engine, which `down` removes."""

import json
import os
import socket
import subprocess
import sys

import pytest

from flexserve.lifecycle.lock import Locked, holders

HERE = socket.gethostname()


@pytest.fixture
def ended():
    """The number of a process that is no longer there."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    return process.pid


@pytest.fixture
def lock(tmp_path):
    """Write a lock as the backend does; the engine's refusal."""

    def held(*records: tuple[str, int]) -> str:
        lines = ["error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete …"]
        for number, (host, pid) in enumerate(records):
            file = tmp_path / "a folder" / f"{number}.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({"pid": pid, "username": "ops", "hostname": host, "timestamp": "2026-11-29T18:34:04Z"}))
            file.with_name(f"{file.name}.attrs").write_text("{}")
            address = f"file://{file}".replace(" ", "%20")
            lines.append(f"  {address}: created by ops@{host} (pid {pid}) at 2026-11-29T18:34:04Z")
        return "\n".join(lines)

    held.files = lambda: sorted(path.name for path in tmp_path.rglob("*.json*"))
    return held


def test_who_holds_it_is_read_from_the_refusal(lock):
    (one,) = holders(lock((HERE, 12)))
    assert (one.user, one.host, one.pid, one.since) == ("ops", HERE, 12, "2026-11-29T18:34:04Z")


def test_the_lock_of_a_killed_engine_is_removed_with_a_word(lock, ended):
    said = []
    locked = Locked("s", lock((HERE, ended)))
    assert "locked by a pulumi that is gone" in locked.what and f"process {ended} of ops on {HERE}" in locked.why
    assert "pulumi cancel -s s" in locked.way_out and "flexserve down -s s" in locked.way_out
    assert locked.unlocked(said.append) and lock.files() == []
    assert len(said) == 1 and str(ended) in said[0]


def test_the_lock_of_a_living_process_stays(lock, ended):
    locked = Locked("s", lock((HERE, os.getpid()), (HERE, ended)))
    assert "another command works on s" in locked.what and "wait for it" in locked.way_out
    assert not locked.unlocked(print) and len(lock.files()) == 4


def test_the_lock_of_another_host_stays(lock, ended):
    locked = Locked("s", lock((f"{HERE}-2", ended)))
    assert "another command works on s" in locked.what and f"on {HERE}-2" in locked.why
    assert not locked.unlocked(print) and len(lock.files()) == 2


def test_a_lock_that_says_something_else_by_now_stays(lock, ended):
    locked = Locked("s", lock((HERE, ended)))
    lock((HERE, os.getpid()))
    assert not locked.unlocked(print) and len(lock.files()) == 2


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"pid": 1'])
def test_a_lock_that_cannot_be_read_stays(lock, ended, tmp_path, text):
    locked = Locked("s", lock((HERE, ended)))
    (tmp_path / "a folder" / "0.json").write_text(text)
    assert not locked.unlocked(print) and len(lock.files()) == 2


@pytest.mark.parametrize(
    "address", ["gs://bucket/.pulumi/locks/s/x.json", "file:///nowhere/x.json", "file://elsewhere/x.json", "file://[/x.json"]
)
def test_a_lock_that_is_not_in_a_folder_of_this_host_stays(address, ended):
    locked = Locked("s", f"error: locked\n  {address}: created by ops@{HERE} (pid {ended}) at 2026-11-29T18:34:04Z")
    assert not locked.unlocked(print)


def test_a_backend_that_names_nobody_is_quoted():
    locked = Locked("s", "code: 255\nstdout: \nstderr: error: [409] Conflict: Another update is currently in progress.")
    assert "Another update is currently in progress" in locked.why and not locked.unlocked(print)
