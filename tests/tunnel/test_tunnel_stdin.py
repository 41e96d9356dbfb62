"""The command over stdin and stdout, in a process of its own: every byte, every end, and nothing that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.tunnel.backend import stream
from tests.tunnel.conftest import LIMIT_S


def test_stdin_and_stdout_carry_one_connection(started) -> None:
    process = started("vm", "stdin", stdin=subprocess.PIPE)
    out, err = process.communicate(b"send 700000\n", timeout=LIMIT_S)
    assert out == stream(700_000)
    assert (process.returncode, err) == (0, b"")


def test_stdin_and_stdout_are_interactive(started) -> None:
    process = started("vm", "stdin", stdin=subprocess.PIPE)
    process.stdin.write(b"echo\nhello")
    process.stdin.flush()
    assert process.stdout.read(5) == b"hello"
    process.stdin.close()
    process.stdout.close()  # as ssh does when it ends
    assert process.wait(LIMIT_S) == 0


def test_stdin_and_stdout_reach_sshs_port(started) -> None:
    """What ssh does with a ProxyCommand: the server speaks first, and our side's end is not the answer's."""
    process = started("vm", "stdin", "remote=22", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"SSH-2.0-stand-in\r\n"
    process.stdin.write(b"SSH-2.0-test\r\nhello\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"hello\n"
    out, err = process.communicate(b"bye\n", timeout=LIMIT_S)  # and the end of stdin
    assert (out, process.returncode, err) == (b"goodbye\n", 0, b"")


@pytest.mark.parametrize(("way", "told"), [("expires=3", b"expired at "), ("reclaimed=3", b"the machine was reclaimed")])
def test_stdin_ends_with_8_when_the_machine_goes_though_nothing_breaks(started, way, told) -> None:
    process = started("vm", "stdin", way, "quick", stdin=subprocess.PIPE)
    process.stdin.write(b"echo\nhello")
    process.stdin.flush()
    assert process.stdout.read(5) == b"hello"
    assert process.wait(LIMIT_S) == 8
    assert told in process.stderr.read()


def test_stdin_ends_with_8_when_the_machines_side_ends_because_it_goes(started) -> None:
    """The clean end of a machine that is shut down looks like a server's goodbye: the cloud's word decides."""
    process = started("vm", "stdin", "reclaimed=0", stdin=subprocess.PIPE)
    process.stdin.write(b"send 1000\n")
    process.stdin.flush()
    assert process.wait(LIMIT_S) == 8
    assert process.stdout.read() == stream(1000)
    assert b"the machine was reclaimed" in process.stderr.read()


@pytest.mark.parametrize(
    ("instance", "remote", "code", "told"),
    [
        ("vm", 2222, 1, b"ssh -L 2222:localhost:2222"),
        ("vm-close4003", 22, 1, b"flexserve status --boot"),
        ("vm-close4033", 22, 5, b"roles/iap.tunnelResourceAccessor"),
        ("vm-forget-dropdn100000", 8000, 1, b"no longer knows the session"),
    ],
)
def test_stdin_tells_the_cause_of_any_other_end(started, instance, remote, code, told) -> None:
    process = started(instance, "stdin", f"remote={remote}", stdin=subprocess.PIPE)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"send 700000\n")
        process.stdin.flush()
    process.stdout.read()
    assert process.wait(LIMIT_S) == code
    assert told in process.stderr.read()


@pytest.mark.parametrize(
    ("remote", "asked", "answer", "waits"),
    [(8000, b"sendkeep 1000\n", stream(1000), True), (22, b"", b"SSH-2.0-stand-in\r\n", False), (8000, b"", b"", False)],
)
def test_a_stdin_that_has_ended_is_an_end_once_the_machine_is_silent(started, remote, asked, answer, waits) -> None:
    """As with `</dev/null`, or on a connection that the server keeps open: all that comes is written, the wait is told, and 0."""
    process = started("vm", "stdin", "brief", f"remote={remote}", stdin=subprocess.PIPE)
    out, err = process.communicate(asked, timeout=LIMIT_S)
    assert (out, process.returncode) == (answer, 0)
    said = err.decode().splitlines()
    assert ("stdin has ended; waits 3 s for more from the machine" in said) == waits
    assert said[-1].startswith("closed: stdin had ended, then ")


def test_an_answer_that_never_comes_is_no_clean_end(started) -> None:
    process = started("vm", "stdin", "brief", "json", stdin=subprocess.PIPE)
    out, err = process.communicate(b"echo\n", timeout=LIMIT_S)
    assert (out, process.returncode) == (b"", 6)
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["event"] for event in events] == ["opened", "lingering", "reset", "stopped", "failed"]
    assert events[-1]["kind"] == "timed-out" and "keep stdin open" in events[-1]["way_out"]
    assert [event["cause"] for event in events if event["event"] == "reset"] == ["no-answer"]


def test_an_answer_that_comes_late_is_whole(started) -> None:
    """The wait begins anew with every byte; a lull that is told is not yet the end."""
    process = started("vm", "stdin", "brief", stdin=subprocess.PIPE)
    out, err = process.communicate(b"late 1000 1200\n", timeout=LIMIT_S)
    assert (out, process.returncode) == (stream(1000), 0)
    assert err.decode().splitlines() == ["stdin has ended; waits 3 s for more from the machine"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stdin_ends_in_order_when_it_is_told_to_stop(started, world, number) -> None:
    """ssh sends SIGHUP to its ProxyCommand. No session may stay with the relay, waiting for a resume."""
    process = started("vm", "stdin", stdin=subprocess.PIPE)
    process.stdin.write(b"echo\nhello")
    process.stdin.flush()
    assert process.stdout.read(5) == b"hello"
    process.send_signal(number)
    assert process.wait(LIMIT_S) == 130
    assert process.stderr.read() == b""
    for _ in range(100):
        if not world.relay.sessions:
            break
        time.sleep(0.05)
    assert world.relay.sessions == 0


@pytest.mark.parametrize("size", [1000, 3_000_000])
def test_a_stdout_that_cannot_be_written_is_an_error(started, size) -> None:
    with Path("/dev/full").open("wb") as full:
        process = started("vm", "stdin", stdin=subprocess.PIPE, stdout=full)
    process.stdin.write(b"send %d\n" % size)
    process.stdin.flush()
    assert process.wait(LIMIT_S) == 1
    assert b"stdout cannot be written" in process.stderr.read()


def test_the_end_of_stdouts_reader_is_the_end_though_stdin_goes_on(started) -> None:
    process = started("vm", "stdin", stdin=subprocess.PIPE)
    process.stdin.write(b"send 3000000\n")
    process.stdin.flush()
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(("more", "code"), [((), 130), (("expires=2", "quick"), 8)])
def test_a_stdout_that_nobody_reads_does_not_hold_the_end_up(started, more, code) -> None:
    process = started("vm", "stdin", "json", *more, stdin=subprocess.PIPE)
    process.stdin.write(b"sendkeep 3000000\n")
    process.stdin.flush()
    assert b"opened" in process.stderr.readline()
    if not more:
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == code


def test_descriptors_that_do_not_block_lose_nothing(started) -> None:
    (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
    for descriptor in (theirs_in, theirs_out):
        os.set_blocking(descriptor, False)
    process = started("vm", "stdin", stdin=theirs_in, stdout=theirs_out)
    os.close(theirs_in)
    os.close(theirs_out)
    time.sleep(1)  # nothing to read yet
    os.write(ours_in, b"send 3000000\n")
    time.sleep(1)  # and no room to write
    with open(ours_out, "rb") as answer:  # noqa: PTH123
        assert answer.read() == stream(3_000_000)
    assert process.wait(LIMIT_S) == 0
    os.close(ours_in)


def test_with_stdin_events_go_to_stderr(started) -> None:
    process = started("vm", "stdin", "json", stdin=subprocess.PIPE)
    out, err = process.communicate(b"send 1000\n", timeout=LIMIT_S)
    assert (out, process.returncode) == (stream(1000), 0)
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["opened", "closed", "stopped"]
