"""The command in a process of its own: what it prints, how it ends, what it leaves."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import time
from datetime import UTC, datetime, timedelta

import pytest

from flexserve.tunnel.command import amount, live_line
from flexserve.tunnel.events import ENDS, KINDS, Event, Stats
from flexserve.tunnel.say import Reporter
from tests.tunnel.conftest import LIMIT_S, ROOT


def listening(process: subprocess.Popen[bytes]) -> int:
    line = process.stdout.readline().decode()
    assert line.startswith("Listening on http://127.0.0.1:"), (line, process.stderr.read())
    return int(line.split(":")[2].split("/")[0])


def echo(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"echo\nhello")
        assert client.recv(5) == b"hello"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_listens_until_it_is_told_to_stop(started, number) -> None:
    process = started("vm")
    echo(listening(process))
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"a-very-secret-token" not in out + err


def test_json_is_one_event_a_line(started) -> None:
    process = started("vm", "json")
    first = json.loads(process.stdout.readline())
    assert first["event"] == "listening"
    echo(first["port"])
    assert json.loads(process.stdout.readline())["event"] == "opened"
    assert json.loads(process.stdout.readline())["event"] == "closed"
    process.send_signal(signal.SIGINT)
    rest = [json.loads(line) for line in process.communicate(timeout=LIMIT_S)[0].splitlines()]
    assert rest[-1]["event"] == "stopped"
    assert rest[-1]["bytes_down"] == 5


def test_a_command_gets_the_address_and_gives_its_exit_code(started) -> None:
    process = started("vm", "exec=echo $OPENAI_BASE_URL; exit 42")
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 42
    assert out.startswith(b"http://127.0.0.1:")
    assert out.endswith(b"/v1\n")
    assert out.count(b"\n") == 1


def ended(pid: int, seconds: float = LIMIT_S) -> bool:
    """Gone, or dead and not yet collected by whoever inherited it."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if not done.stdout.strip() or done.stdout.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


def test_a_stop_ends_the_command_too(started, tmp_path) -> None:
    mark = tmp_path / "pid"
    process = started("vm", f"exec=(sh -c 'echo $$ > {mark}; exec sleep 600') | cat")
    for _ in range(20 * LIMIT_S):
        if mark.exists() and mark.read_text().strip():
            break
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert ended(int(mark.read_text()))


def test_a_stop_ends_what_takes_no_sigterm_though_its_shell_does(started, tmp_path) -> None:
    mark = tmp_path / "pid"
    process = started("vm", f"exec=(trap '' TERM; sh -c 'echo $$ > {mark}; exec sleep 600') & exec sleep 600")
    for _ in range(20 * LIMIT_S):
        if mark.exists() and mark.read_text().strip():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert ended(int(mark.read_text()))


def test_a_tunnel_that_is_killed_leaves_no_command_behind(started, tmp_path) -> None:
    """SIGKILL is seen by no handler. The command and what it started are in a group of their own: all of it goes."""
    marks = [tmp_path / name for name in ("shell", "child")]
    process = started("vm", f"exec=echo $$ > {marks[0]}; sh -c 'echo $$ > {marks[1]}; exec sleep 600'; true")
    for _ in range(20 * LIMIT_S):
        if all(mark.exists() and mark.read_text().strip() for mark in marks):
            break
        time.sleep(0.05)
    process.kill()
    process.wait(LIMIT_S)
    assert all(ended(int(mark.read_text())) for mark in marks)


def test_an_expired_window_is_exit_8(started, monkeypatch) -> None:
    process = started("vm-cl4051up10", "expires=2", "json")
    port = json.loads(process.stdout.readline())["port"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2.2)
    with socket.create_connection(("127.0.0.1", port)) as client, pytest.raises(ConnectionResetError):
        client.sendall(b"echo\n" + b"x" * 100)
        while client.recv(100):
            pass
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (8, b"")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines] == ["opened", "reset", "stopped", "expired"]  # how it ended: last, and once
    assert lines[-1]["what"].startswith("expired at ")
    assert (lines[-1]["kind"], lines[-1]["exit_code"]) == ("gone", 8)


def test_a_reclaim_is_an_event_of_its_own(started) -> None:
    process = started("vm", "reclaimed=1", "quick", "json")
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 8
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines] == ["listening", "stopped", "reclaimed"]
    assert (lines[-1]["kind"], lines[-1]["why"]) == ("reclaimed", "no capacity any more")


def test_with_exec_events_go_to_stderr_and_the_error_too(started) -> None:
    process = started("vm", "exec=echo theirs; exec sleep 600", "reclaimed=2", "quick", "json")
    out, err = process.communicate(timeout=LIMIT_S)
    assert (out, process.returncode) == (b"theirs\n", 8)
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["listening", "stopped", "reclaimed"]


@pytest.mark.parametrize(("line", "code"), [("kill -9 $$", 137), ("no-such-program-here", 127), ("exit 0", 0)])
def test_exec_ends_with_what_its_command_ended_with(started, line, code) -> None:
    process = started("vm", f"exec={line}")
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == code


def test_every_event_of_the_table_is_told_somewhere_and_no_other() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "flexserve" / "tunnel").rglob("*.py"))
    assert set(re.findall(r"tell\(\s*\"(\w+)\"", source)) == set(KINDS) - set(ENDS)


def test_no_permission_is_exit_5(started) -> None:
    process = started("vm-close4033")
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 5
    assert b"roles/iap.tunnelResourceAccessor" in err


def test_a_busy_port_says_who_holds_it(started) -> None:
    first = started("vm")
    port = listening(first)
    second = started("vm", f"port={port}")
    _, err = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 1
    assert f"(pid {first.pid})".encode() in err
    assert b"run_tunnel.py" in err


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (33_400_000, "33.4 MB"), (5e12, "5000 GB")],
)
def test_amounts(size, text) -> None:
    assert amount(size) == text


def test_the_live_line_shows_bytes_connections_and_time_left() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    stats = Stats(connections=17, open=3, bytes_up=1200, bytes_down=5_000_000, resumes=2)
    line = live_line(8000, stats, now + timedelta(hours=2, minutes=5), now)
    assert line == ":8000  3 open, 17 in all  up 1.2 kB  down 5.0 MB  2 resumed  2h5m left"


def test_the_live_line_is_for_terminals_only() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert Reporter(io.StringIO(), Terminal(), json=False).live_wanted
    assert not Reporter(io.StringIO(), Terminal(), json=True).live_wanted
    assert not Reporter(io.StringIO(), io.StringIO(), json=False).live_wanted


def test_waiting_is_told_once_a_phase() -> None:
    progress = io.StringIO()
    reporter = Reporter(io.StringIO(), progress, json=False)
    for phase in ("docker", "docker", "weights"):
        reporter.event(Event("waiting", {"cause": "not-listening", "seconds": 1.0, "phase": phase}))
    assert progress.getvalue().splitlines() == [
        "waiting: not-listening, boot phase docker",
        "waiting: not-listening, boot phase weights",
    ]


class Gone(io.StringIO):
    """A terminal that was closed, or a pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("json", [True, False])
def test_events_that_nobody_reads_stop_nothing(json) -> None:
    reporter = Reporter(Gone(), Gone(), json=json)
    reporter.live("line")
    for kind in ("listening", "reset", "closed"):
        reporter.event(Event(kind, dict.fromkeys(KINDS[kind].fields, "said")))
    reporter.clear()


@pytest.mark.parametrize("width", [1, 20, 500])
def test_the_live_line_is_no_wider_than_the_terminal(width) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, width, 0, 0))
    with open(theirs, "w", encoding="utf-8") as terminal:  # noqa: PTH123
        Reporter(terminal, terminal, json=False).live("x" * 100)
        said = os.read(ours, 4096).decode()
    os.close(ours)
    assert said.removeprefix("\r\x1b[K") == "x" * min(100, width - 1)
