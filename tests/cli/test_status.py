"""The state of a deployment from what the state file, the cloud and the machine say: a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from flexserve.lifecycle.show import page, timeline
from flexserve.lifecycle.state import Seen, describe
from flexserve.output import Output
from infra.targets.protocol import DeploymentRef, Failure, QueueEntry, State
from startup.phases import Phase
from tests.cli.fakes import NEW, OLD, START, boot, failed_boot, machine, outputs
from verdict.exit_codes import ExitCode

REF = DeploymentRef("s", "id1", outputs())
ONLY_KEPT = DeploymentRef("s", "id1", {"id": "id1"})
HOUR = timedelta(hours=1)
NOW = START + HOUR
LATE = START + 5 * HOUR

CASES = [
    ("no stack", Seen(None, NOW), State.ABSENT),
    ("foundation only", Seen(ONLY_KEPT, NOW), State.ABSENT),
    ("a create that failed", Seen(ONLY_KEPT, NOW, failure=Failure("STOCKOUT", "none", "z")), State.FAILED),
    ("waits in the queue", Seen(ONLY_KEPT, NOW, queued=QueueEntry("q", "ACCEPTED", START)), State.QUEUED),
    ("being made", Seen(REF, NOW, machine(cloud_state="STAGING")), State.CREATED),
    ("no report yet", Seen(REF, NOW, machine()), State.CREATED),
    ("booting", Seen(REF, NOW, machine(), boot("booting", phase="docker")), State.CREATED),
    ("serving", Seen(REF, NOW, machine(), boot()), State.SERVING),
    ("a phase failed", Seen(REF, NOW, machine(), failed_boot()), State.FAILED),
    ("a reclaim was announced", Seen(REF, NOW, machine(), boot("reclaimed")), State.RECLAIMED),
    ("stopped by hand", Seen(REF, NOW, machine(cloud_state="TERMINATED"), boot()), State.STOPPED),
    ("ending after its window", Seen(REF, LATE, machine(cloud_state="STOPPING"), boot()), State.EXPIRED),
    ("serves after its window", Seen(REF, LATE, machine(), boot()), State.EXPIRED),
    ("has not reported after its window", Seen(REF, LATE, machine()), State.EXPIRED),
    ("failed, and its window is over", Seen(REF, LATE, machine(), failed_boot()), State.FAILED),
    ("gone after its window", Seen(REF, LATE), State.EXPIRED),
    ("gone before its window", Seen(REF, NOW), State.RECLAIMED),
]


@pytest.mark.parametrize(("seen", "state"), [pytest.param(s, t, id=i) for i, s, t in CASES])
def test_state(seen, state):
    status = describe("s", seen)
    assert status.state is state
    assert page(status, Output(), boot=True)


CONTRACT = {
    "state": str,
    "phase": str,
    "cause": str,
    "expires_at": (str, type(None)),
    "seconds_left": (int, type(None)),
    "cost_so_far": (float, type(None)),
    "zone": str,
    "id": str,
    "script": dict,
}


@pytest.mark.parametrize("seen", [pytest.param(s, id=i) for i, s, _ in CASES])
def test_document_keeps_the_contract(seen):
    document = describe("s", seen).as_dict(boot=True)
    for key, kind in CONTRACT.items():
        assert isinstance(document[key], kind), key
    assert set(document["script"]) == {"running", "wanted"}
    for phase in document["phases"]:
        assert set(phase) == {"name", "start_s", "seconds", "held_s", "needs", "result", "cause", "log_tail"}


def test_time_and_money_are_the_clouds():
    status = describe("s", Seen(REF, START + HOUR, machine(), boot()))
    assert status.seconds_left == 3 * 3600 and status.cost_so_far == 1.5
    assert describe("s", Seen(REF, LATE)).seconds_left == 0
    assert describe("s", Seen(REF, LATE)).cost_so_far == 6.0
    late = describe("s", Seen(REF, LATE, machine(), boot()))
    assert (late.cost_so_far, late.seconds_left) == (7.5, 0) and "bills" in late.cause  # as long as it is there


def test_an_unknown_price_is_unknown():
    ref = replace(REF, outputs={k: v for k, v in REF.outputs.items() if k != "price_per_hour"})
    assert describe("s", Seen(ref, NOW, machine(), boot())).cost_so_far is None


def test_running_and_wanted_script():
    ref = DeploymentRef("s", "id1", outputs(NEW))
    document = describe("s", Seen(ref, NOW, machine(), boot())).as_dict()
    assert document["script"] == {"running": OLD, "wanted": NEW}
    assert "wanted is bbbbbbbbbbbb" in page(describe("s", Seen(ref, NOW, machine(), boot())), Output())


def test_timeline_shows_each_phase():
    text = timeline(boot().phases)
    assert "docker" in text and "3.2 s" in text and "█" in text


def test_a_phase_that_is_over_does_not_run_though_its_end_is_not_told():
    last = {result: timeline((Phase("serving", 3.0, None, result),)) for result in ("done", "running")}
    assert "running" not in last["done"] and "not known" in last["done"] and "running  running" in last["running"]


def test_exit_codes_of_status(project, flexserve, monkeypatch):
    from flexserve.commands import status as command
    from tests.cli.fakes import World

    for prepare, code in (
        (lambda w: w, ExitCode.DONE),
        (lambda w: w.lives(), ExitCode.DONE),
        (lambda w: w.lives(failed_boot()), ExitCode.FAILED),
        (_expired, ExitCode.GONE),
    ):
        world = prepare(World())
        monkeypatch.setattr(command, "parts", lambda *args, w=world: w.parts())
        got, out, _ = flexserve("status", "-s", "tpu-v6e", "--boot", "--json")
        assert got == code and out.startswith("{")


def _expired(world):
    world.lives()
    world.live.machine, world.live.passed = None, timedelta(hours=9)
    return world


def test_a_machine_that_down_could_not_delete_is_not_absent():
    from flexserve.commands.status import now
    from tests.cli.fakes import World

    world = World().lives()
    world.note.held, world.ref = world.ref, None
    assert now(world.parts(), print).state is State.SERVING
    world.live.machine = None
    assert now(world.parts(), print).state is State.ABSENT


@pytest.mark.parametrize(("ended", "says"), [("EC2 took the spot machine back", "EC2 took"), ("", "or somebody deleted it")])
def test_a_cloud_that_knows_why_a_machine_has_gone_is_quoted(ended, says):
    assert says in describe("s", Seen(REF, NOW, ended=ended)).cause
