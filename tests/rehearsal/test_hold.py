"""How a rehearsal is held: what is said, what the file does to a shell, and both ends of the wait. With machines: `test_life`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flexserve.commands.rehearse import held_for, run
from rehearsal.hold import FILE, environment_file, hold
from rehearsal.product import Product
from verdict.errors import BadConfig


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def product(tmp_path: Path, said: list[str]) -> Product:
    (tmp_path / "a project").mkdir()
    environment = {"PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "ODD": 'it\'s "$HOME" `x`\nand more'}
    return Product(tmp_path / "a project", environment, tmp_path / "log", said.append)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_that_reads_it_in_sees_what_the_rehearsals_commands_see(product, tmp_path, shell):
    file = tmp_path / FILE
    file.write_text(environment_file(product.project, product.environment))
    foreign = {
        "AWS_PROFILE": "real",
        "https_proxy": "http://x",
        "HTTPS_PROXY": "http://x",
        "PULUMI_BACKEND_URL": "s3://real",
        "MINE": "1",
    }
    argv = [shell, "-c", f"set -eu; . '{file}'; env -0; printf 'PWD:%s' \"$(pwd)\""]
    done = subprocess.run(argv, env={**foreign, "PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=True)
    *variables, last = done.stdout.split("\0")
    seen = dict(variable.split("=", 1) for variable in variables)
    assert {name: seen.get(name) for name in product.environment} == dict(product.environment)
    assert seen["MINE"] == "1" and not {"AWS_PROFILE", "https_proxy", "HTTPS_PROXY", "PULUMI_BACKEND_URL"} & set(seen)
    assert last == f"PWD:{product.project}"


def test_it_says_what_to_type_and_the_file_is_gone_afterwards(product, said, tmp_path):
    there: list[bool] = []
    assert hold(product, tmp_path, "tpu-v6e", 5, wait=lambda _: there.append((tmp_path / FILE).exists()))
    assert there == [True] and not (tmp_path / FILE).exists()
    assert f"  . {tmp_path / FILE}" in said
    for command in ("status", "tunnel", "smoke", "logs"):
        assert f"  flexserve {command} -s tpu-v6e" in said


def test_ctrl_c_ends_it_before_the_time(product, said, tmp_path):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        assert not hold(product, tmp_path, "tpu-v6e", 600)
    finally:
        signal.signal(signal.SIGINT, before)
        timer.join()
    assert said[-1] == "held no longer" and not (tmp_path / FILE).exists()


STOPPED = """
import os, signal, sys, threading
from pathlib import Path
from rehearsal.hold import hold
from rehearsal.product import Product

folder = Path(sys.argv[1])
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[3] == "ignored" else signal.SIG_DFL)
threading.Timer(0.2, os.kill, (os.getpid(), int(sys.argv[2]))).start()
ended = hold(Product(folder, {}, folder / "log", print), folder, "s", float(sys.argv[4]))
print("teardown", ended, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


@pytest.mark.parametrize(
    ("number", "hup", "seconds", "passed"),
    [(signal.SIGTERM, "", 600, False), (signal.SIGHUP, "", 600, False), (signal.SIGHUP, "ignored", 1, True)],
)
def test_a_stop_goes_on_to_the_teardown_and_leaves_no_file(root, tmp_path, number, hup, seconds, passed):
    argv = [sys.executable, "-c", STOPPED, str(tmp_path), str(int(number)), hup, str(seconds)]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"teardown {passed} True"), done.stderr
    assert not (tmp_path / FILE).exists()


def test_a_link_in_the_files_place_is_not_followed(product, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("mine")
    (tmp_path / FILE).symlink_to(theirs)
    seen: list[tuple[bool, int]] = []
    look = lambda _: seen.append(((tmp_path / FILE).is_symlink(), (tmp_path / FILE).stat().st_mode & 0o777))  # noqa: E731
    assert hold(product, tmp_path, "tpu-v6e", 5, wait=look)
    assert seen == [(False, 0o600)] and theirs.read_text() == "mine"


def test_a_stack_behind_hold_is_told_from_a_time(root):
    with pytest.raises(BadConfig) as caught:
        run(root, None, hold="tpu-v6e")
    assert "tpu-v6e is a stack, not a time" in caught.value.what and caught.value.way_out == "flexserve rehearse tpu-v6e --hold"


def test_the_time_ends_it(product, tmp_path):
    assert hold(product, tmp_path, "tpu-v6e", 0.01)


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("45", 45), ("1h30m", 5400)])
def test_how_long(text, seconds):
    assert held_for(text) == seconds


@pytest.mark.parametrize("text", ["0", "31d", "100000000d"])
def test_no_time_to_hold(text):
    with pytest.raises(BadConfig, match="from one second to 30 days"):
        held_for(text)


@pytest.mark.parametrize("text", ["soon", "tpu-v6e", ""])
def test_no_time(text):
    with pytest.raises(BadConfig, match="is not a duration"):
        held_for(text)
