"""Ctrl-C at every stage of a command: exit 130, what is left and how to go on, never a traceback; and nothing is lost.

The tests with an engine share a stack; each takes down what it has left.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from tests.cli.site import LIMIT_S, STACK, site

ENGINE = pytest.mark.skipif(shutil.which("pulumi") is None, reason="pulumi is not on PATH; `make setup` puts it there")
pytestmark = pytest.mark.timeout(1800)


def interrupted(argv: Sequence[str], folder, environ, at: str) -> tuple[int, str]:
    """Start it on a terminal of its own, press Ctrl-C once `at` was said (at once when empty); exit code and all it said."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(argv[0], list(argv), environ)
    said, pressed, ends = "", False, time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        if not pressed and at in said:
            os.write(terminal, b"\x03")
            pressed = True
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            said += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the last one that had it open has closed it
            break
    else:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    assert pressed, said
    return code, said


def up(here, at: str, *words: str) -> tuple[int, str]:
    return interrupted([sys.executable, "-m", "flexserve", "up", "-s", STACK, *words], here.project, here.environment, at)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with site(tmp_path_factory.mktemp("interrupted")) as running:
        yield running


def bills(here):
    return [item.name for item in here.cloud.ledger.left() if not item.name.startswith("hf-token/")]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("module", ["flexserve.cli", "flexserve.commands.plan", "yaml"])
def test_while_modules_are_imported_it_ends_with_130_and_a_sentence(project, root, tmp_path, module, as_json):
    """Before the command line is there, before its command is, and in the midst of it."""
    press = f"""
import os, signal, sys
class Press:
    pressed = False
    def find_spec(self, name, *_):
        if name == {module!r} and not self.pressed:
            Press.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv = ["flexserve", "plan", "-s", "tpu-v6e"] + ["--json"] * {as_json}
from flexserve.start import main
sys.exit(main())
"""
    environ = {**os.environ, "PYTHONPATH": str(root), "FLEXSERVE_CACHE": str(tmp_path / "cache")}  # a kept reading imports no yaml
    argv = [sys.executable, "-c", press]
    done = subprocess.run(argv, cwd=project, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    if as_json:
        assert json.loads(done.stdout)["error"]["kind"] == "interrupted" and done.stderr == ""
    else:
        assert done.stdout == "" and done.stderr.startswith("error: interrupted before the command")


@ENGINE
def test_at_the_question_nothing_was_made(here):
    code, said = up(here, "[Y/n]")
    assert code == 130 and "interrupted" in said and "Traceback" not in said
    assert not [request for request in here.cloud.requests() if request["method"] != "GET"]


@ENGINE
def test_during_the_create_the_engine_records_what_it_made(here):
    code, said = up(here, "creating compute/network", "--yes")
    assert code == 130 and "Traceback" not in said
    assert "recorded it" in said and "made by now: " in said and "flexserve down -s tpu-v6e deletes it" in said
    assert here.run("status", code=0)[0]["state"] == "absent"
    here.run("down", "--yes", code=0)
    assert bills(here) == []


def left_alone(here, at: str, press) -> int:
    """Start `up` with a terminal as its stderr; once `at` was said nobody reads any more, and then `press(pid)`; the exit code."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "flexserve", "up", "-s", STACK, "--yes"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(argv, cwd=here.project, env=here.environment, stderr=theirs, start_new_session=True, **quiet) as process:
        os.close(theirs)
        said, ends = "", time.monotonic() + LIMIT_S
        while at not in said and time.monotonic() < ends:
            try:
                said += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # it has ended
                break
        assert at in said, said
        os.close(ours)  # every write of theirs fails from now on
        press(process.pid)
        return process.wait(LIMIT_S)


@ENGINE
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C after | tee has gone", "the terminal was closed"])
def test_with_nobody_to_tell_the_engine_still_finishes_and_records(here, number):
    assert left_alone(here, "creating compute/network", lambda pid: os.kill(pid, number)) == 130
    assert here.run("status", code=0)[0]["state"] == "absent"  # no lock is left, and the state can be read
    state = json.loads(next((here.project.parent / "state").rglob(f"{STACK}.json")).read_text(encoding="utf-8"))
    assert state["checkpoint"]["latest"]["resources"] and not state["checkpoint"]["latest"].get("pending_operations")
    here.run("down", "--yes", code=0)
    assert bills(here) == []


@ENGINE
def test_while_the_machine_boots_it_says_where_that_stands_and_leaves_nothing_half_done(here):
    here.behaviour.stays_in = "image"
    try:
        code, said = up(here, "is created", "--yes")
    finally:
        here.behaviour.stays_in = ""
    assert code == 130 and "Traceback" not in said
    _, _, last = said.partition("stopped waiting; the machine goes on booting and bills")
    assert "tpu-v6e is created" in last and "status -s tpu-v6e --wait" in last and "down -s tpu-v6e ends it" in last
    document, _ = here.run("status", code=0)  # no lock is left, the machine is there, and it is found
    assert document["state"] == "created" and document["phase"] == "image"
    here.run("down", "--yes", code=0)
    assert bills(here) == []
