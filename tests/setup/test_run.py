"""Running steps: order, failure, interruption, the second run."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.setup.cache import building, sweep
from tools.setup.run import run_steps
from tools.setup.step import Result, Skip, Step, StepFailed

ROOT = Path(__file__).resolve().parents[2]


class Heard:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.failures, self.order = [], []

    def started(self, step, work):
        self.order.append(step.name)

    def ended(self, step, outcome):
        pass

    def failed(self, outcome, tail):
        self.failures.append((outcome, tail))

    def tick(self):
        pass


def step(name, *, needs=(), run=None, done=None, **more):
    made = []
    run = run or (lambda host, work: "made")

    def note(host, work):
        words = run(host, work)
        made.append(name)
        return words

    done = done or (lambda host: "there" if made else None)
    return Step(name, f"about {name}", lambda host: "k", done, note, needs=needs, **more)


def outcomes(steps, host, stop=None):
    heard = Heard()
    found = run_steps(steps, host, heard, stop or threading.Event())
    return {o.name: o for o in found}, heard


def test_steps_run_after_what_they_need_and_once(host):
    steps = [step("c", needs=("a", "b")), step("a"), step("b", needs=("a",))]
    first, heard = outcomes(steps, host)
    assert {o.result for o in first.values()} == {Result.DONE}
    assert heard.order == ["a", "b", "c"]
    second, heard = outcomes(steps, host)
    assert {o.result for o in second.values()} == {Result.READY} and heard.order == []


def test_independent_steps_run_at_the_same_time(host):
    met = threading.Barrier(2, timeout=30)
    found, _ = outcomes([step(n, run=lambda host, work: str(met.wait())) for n in ("a", "b")], host)
    assert {o.result for o in found.values()} == {Result.DONE}


def test_a_failing_command_reports_its_log_its_last_lines_and_its_exit_code(host):
    def run(host, work):
        work.command(["sh", "-c", "echo the reason; exit 7"], environ={"PATH": os.environ["PATH"]})

    found, heard = outcomes([step("bad", run=run), step("after", needs=("bad",))], host)
    ((outcome, tail),) = heard.failures
    assert outcome.result is Result.FAILED and outcome.exit_code == 7
    assert "the reason" in tail and "the reason" in outcome.log.read_text()
    assert "after" not in found


def test_the_first_failure_stops_the_others(host):
    def fail(host, work):
        raise StepFailed("no", way_out="this way")

    def forever(host, work):
        work.command(["sleep", "300"], environ={"PATH": os.environ["PATH"]})

    found, _ = outcomes([step("slow", run=forever), step("bad", run=fail)], host)
    assert found["slow"].result is Result.STOPPED
    assert found["bad"].way_out == "this way"


def test_a_mistake_in_a_step_is_a_failure_with_words(host):
    found, _ = outcomes([step("bad", run=lambda host, work: [][1])], host)
    assert found["bad"].result is Result.FAILED and "IndexError" in found["bad"].words


def test_a_step_that_does_not_apply_is_skipped_and_stops_nobody(host):
    def skip(host, work):
        raise Skip("not here")

    found, _ = outcomes([step("odd", run=skip), step("after", needs=("odd",))], host)
    assert found["odd"].result is Result.SKIPPED and found["odd"].words == "not here"
    assert found["after"].result is Result.DONE


def test_a_command_that_takes_too_long_is_ended(host):
    def run(host, work):
        work.command(["sleep", "300"], environ={"PATH": os.environ["PATH"]}, limit_s=0.2)

    found, _ = outcomes([step("slow", run=run)], host)
    assert found["slow"].result is Result.FAILED and "too long" in found["slow"].words


def test_building_is_whole_or_absent(tmp_path):
    target = tmp_path / "thing-1"
    with pytest.raises(RuntimeError), building(target) as folder:
        (folder / "half").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with building(target) as folder:
        (folder / "whole").write_text("whole")
        assert not target.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["thing-1"]


def test_what_a_killed_build_left_is_swept_and_a_living_one_is_not(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    (tmp_path / f".thing-1.{dead.pid}.tmp").mkdir()
    living = tmp_path / f".thing-2.{os.getpid()}.tmp"
    living.mkdir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [living]


_INTERRUPTED = """
import sys, threading
from pathlib import Path
import tools.setup.__main__ as main
from tools.setup.cache import building
from tools.setup.step import Step

def run(host, work):
    with building(host.cache / "thing-1") as folder:
        (folder / "half").write_text("half")
        print("building", flush=True)
        work.command(["sh", "-c", "trap '' TERM INT; echo $$ > %s; sleep 300 & wait"], environ=host.child_environ())

main.STEPS = (Step("thing", "a thing", lambda host: "1", lambda host: None, run),)
sys.exit(main.main(["thing"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_130_and_leaves_neither_half_a_thing_nor_a_process(tmp_path, number):
    pid_file, cache = tmp_path / "pid", tmp_path / "cache"
    environ = {**os.environ, "FLEXSERVE_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED % pid_file], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and "interrupted" in said and "Traceback" not in said
    assert [p.name for p in cache.iterdir()] == ["logs"]
    assert alive(int(pid_file.read_text())) == []


def alive(group):
    """Processes of a group that run; one that is dead and not yet collected does not."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in "ZX":
            found.append(stat.parent.name)
    return found
