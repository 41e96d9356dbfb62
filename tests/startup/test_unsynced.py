"""No wait for the disk: the filter as a table, and a real process behind it."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from startup.onboard import unsynced

ROOT = Path(__file__).parents[2]
OTHER = 0x40000003  # another processor's number: the same calls have other numbers there


def verdict(code: bytes, processor: int, number: int) -> int:
    """Run the filter on one call."""
    lines: list[tuple[int, int, int, int]] = list(struct.iter_unpack("=HBBI", code))
    at = value = 0
    while True:
        kind, same, other, operand = lines[at]
        at += 1
        if kind == unsynced.LOAD:
            value = {unsynced.NUMBER_AT: number, unsynced.PROCESSOR_AT: processor}[operand]
        elif kind == unsynced.SAME:
            at += same if value == operand else other
        else:
            assert kind == unsynced.RETURN
            return operand


@pytest.mark.parametrize(("processor", "calls"), unsynced.CALLS.values(), ids=unsynced.CALLS)
def test_the_calls_that_wait_for_the_disk_are_done_and_no_others(processor: int, calls: tuple[int, ...]) -> None:
    code = unsynced.program(processor, calls)
    done = {number for number in range(600) if verdict(code, processor, number) == unsynced.DONE}
    assert done == set(calls)
    assert {verdict(code, processor, number) for number in range(600) if number not in calls} == {unsynced.ALLOWED}
    assert {verdict(code, OTHER, number) for number in range(600)} == {unsynced.ALLOWED}


TRY = """
import os
from startup.onboard import unsynced
def asked():
    try:
        os.fsync(9999), os.fdatasync(9999)
    except OSError as error:
        return error.strerror
    return "not asked"
begun = (asked(), unsynced.begin())
print(begun, asked(), flush=True)
os.execvp("python3", ["python3", "-c", "import os; os.fsync(9999); print(os.write(1, b''), flush=True); os.close(9999)"])
"""


def test_a_process_and_what_it_starts_wait_no_longer() -> None:
    """A file that is not open shows whether the kernel was asked."""
    if os.uname().machine not in unsynced.CALLS or os.geteuid():
        pytest.skip("another processor, or no right to filter")
    ran = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.stdout.splitlines() == ["('Bad file descriptor', True) not asked", "0"], ran
    assert "Bad file descriptor" in ran.stderr  # other calls are made as ever


def test_on_another_processor_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsynced, "CALLS", {})
    assert unsynced.begin() is False
