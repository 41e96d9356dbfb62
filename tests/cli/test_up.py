"""`up` with a fake engine, cloud, clock and server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from flexserve.lifecycle.classify import SLACK
from flexserve.lifecycle.parts import BootFailed, Changes, EngineFailed
from flexserve.lifecycle.state import Status
from flexserve.lifecycle.up import Served, Wanted, WrongMachine, up
from flexserve.lifecycle.wait import until_serving
from infra.targets.protocol import Failure, State
from tests.cli.fakes import NEW, OLD, START, WINDOW_S, World, boot, created, failed_boot, fails, machine
from verdict.errors import BadConfig, FlexserveError, Gone, Interrupted, MissingProgram, NoAccess, NoCapacity, Refused, TimedOut
from verdict.exit_codes import ExitCode

STOCK_OUT = Failure("ZONE_RESOURCE_POOL_EXHAUSTED", "no more", "europe-west4-a")
HOUR = timedelta(hours=1)


def run(
    world: World, *, wait: bool = True, timeout_s: float = 1800, consent=lambda changes: None
) -> tuple[Served, list[Status], list[str]]:
    seen: list[Status] = []
    said: list[str] = []
    served = up(world.parts(), Wanted(("flex_start",), timeout_s, wait), consent=consent, report=seen.append, say=said.append)
    return served, seen, said


def test_created_is_not_serving_until_the_nonce_comes_back():
    world = World()
    served, seen, _ = run(world)
    assert [s.state for s in seen] == [State.CREATED, State.CREATED, State.SERVING]
    assert world.calls == ["up", "ask"] and served.answer.ok and served.status.state is State.SERVING


def test_health_without_an_answer_is_not_serving():
    """The machine says serving, the chat completion fails at first: R13."""
    world = World(answers=[FlexserveError("the server answered 500"), "something else", "here: nonce1"])
    served, _, _ = run(world)
    assert world.calls == ["up", "ask", "ask", "ask"] and served.answer.ok


def test_the_question_comes_before_the_engine():
    world, asked = World(), []

    def no(changes):
        asked.append((changes, list(world.calls)))
        raise FlexserveError("not confirmed")

    with pytest.raises(FlexserveError, match="not confirmed"):
        run(world, consent=no)
    assert asked == [(None, [])] and world.calls == []


def test_no_wait_asks_nobody():
    world = World()
    served, seen, _ = run(world, wait=False)
    assert served.answer is None and seen == [] and world.calls == ["up"] and served.status.state is State.CREATED


def test_already_serving_and_unchanged_is_said_without_a_question():
    def never(changes):
        raise AssertionError("asked")

    world = World(previewed=Changes({"same": 12})).lives()
    served, _, _ = run(world, consent=never)
    assert served.already and world.calls == ["preview", "ask"]


def test_a_changed_flag_waits_for_the_wanted_script_and_asks_again():
    def changed(world: World) -> Changes:
        world.lives(boot(), script=NEW)  # the old script still serves
        restart = [lambda: setattr(world.live, "report", boot("booting", script=NEW)), lambda: None]
        world.clock.on_sleep = [*restart, lambda: setattr(world.live, "report", boot("serving", script=NEW))]
        return Changes({"update": 1, "same": 11})

    asked = []
    world = World(previewed=Changes({"update": 1, "same": 11}), ups=changed).lives()
    served, seen, _ = run(world, consent=asked.append)
    assert asked == [world.previewed]
    assert world.calls == ["preview", "up", "ask"]
    assert [(s.state, s.current) for s in seen] == [
        (State.SERVING, False),
        (State.CREATED, True),
        (State.CREATED, True),
        (State.SERVING, True),
    ]
    assert served.status.running == served.status.wanted == NEW


def test_the_old_scripts_failure_does_not_stop_the_new_one():
    def changed(world: World) -> Changes:
        world.lives(failed_boot(), script=NEW)
        world.clock.on_sleep = [lambda: setattr(world.live, "report", boot("serving", script=NEW))]
        return Changes({"update": 1})

    served, _, _ = run(World(previewed=Changes({"update": 1}), ups=changed).lives(failed_boot()))
    assert served.answer.ok


def test_a_failed_boot_with_nothing_changed_runs_again_on_the_same_machine():
    def again(world: World) -> Changes:
        world.lives(failed_boot(), script=NEW)  # the machine still shows the failed run of the old script
        booting = [lambda: setattr(world.live, "report", boot("booting", script=NEW)), lambda: None]
        world.clock.on_sleep = [*booting, lambda: setattr(world.live, "report", boot("serving", script=NEW))]
        return Changes({"update": 2, "same": 10})

    asked = []
    world = World(previewed=Changes({"same": 12}), ups=again).lives(failed_boot())
    served, seen, said = run(world, consent=asked.append)
    assert world.calls == ["preview", "rerun", "ask"] and asked == [world.previewed]
    assert any("failed in phase token: secret hf-token is empty" in line for line in said)
    assert served.answer.ok and not served.already
    assert (seen[0].state, seen[0].current) == (State.FAILED, False)


@pytest.mark.parametrize(
    ("report", "call"),
    [
        (failed_boot(), "rerun"),  # what is changed may be beside the machine: a right that the boot wanted
        (boot(), "up"),
        (boot("failed", script=NEW), "up"),  # of a script that is not wanted any more
    ],
)
def test_a_change_is_not_judged_by_a_boot_that_failed_before_it(report, call):
    def changed(world: World) -> Changes:
        script = NEW if call == "rerun" else OLD
        world.lives(report, script=script)
        world.clock.on_sleep = [lambda: setattr(world.live, "report", boot(script=script))]
        return Changes({"update": 1})

    world = World(previewed=Changes({"update": 1}), ups=changed).lives(report)
    served, _, _ = run(world)
    assert served.answer.ok and world.calls[:2] == ["preview", call]


def test_a_rerun_that_fails_again_ends_with_its_own_cause():
    def again(world: World) -> Changes:
        world.lives(failed_boot(), script=NEW)
        world.clock.on_sleep = [
            lambda: setattr(world.live, "report", replace(failed_boot("weights", "hub-licence: no"), script=NEW))
        ]
        return Changes({"update": 2})

    with pytest.raises(BootFailed) as caught:
        run(World(previewed=Changes({"same": 12}), ups=again).lives(failed_boot()))
    assert (caught.value.phase, caught.value.cause) == ("weights", "hub-licence: no")
    assert "flexserve up -s s" in caught.value.way_out


def test_no_means_no_rerun():
    def no(changes):
        raise FlexserveError("not confirmed")

    world = World(previewed=Changes({"same": 12})).lives(failed_boot())
    with pytest.raises(FlexserveError, match="not confirmed"):
        run(world, consent=no)
    assert world.calls == ["preview"]


@pytest.mark.parametrize("report", [boot("booting"), boot(), None], ids=["still booting", "serving", "no report yet"])
def test_what_has_not_failed_is_not_run_again(report):
    world = World(previewed=Changes({"same": 12})).lives(report)
    world.live.report = report
    world.clock.on_sleep = [lambda: setattr(world.live, "report", boot())]
    run(world)
    assert world.calls == ["preview", "ask"]


def test_a_failed_phase_ends_with_its_cause_and_log():
    def broken(world: World) -> Changes:
        changes = created(world)
        world.clock.on_sleep = [lambda: setattr(world.live, "report", failed_boot())]
        return changes

    with pytest.raises(BootFailed) as caught:
        run(World(ups=broken))
    error = caught.value.as_dict()["error"]
    assert (
        error["phase"] == "token"
        and error["cause"] == "secret hf-token is empty"
        and error["log_tail"] == "last words of the phase"
    )
    assert caught.value.exit_code == ExitCode.FAILED and "secret hf-token is empty" in caught.value.what


@pytest.mark.parametrize(
    ("up_fails", "error", "code"),
    [
        pytest.param(fails("does not say", failure=STOCK_OUT), NoCapacity, 4, id="stock-out known from the cloud's record only"),
        pytest.param(fails("pool EXHAUSTED"), NoCapacity, 4, id="stock-out in the engine's words"),
        pytest.param(fails("x", failure=Failure("QUOTA_EXCEEDED", "", "z")), NoAccess, 5, id="quota"),
        pytest.param(fails("timeout while waiting for state"), TimedOut, 6, id="timeout"),
        pytest.param(
            fails("timeout while waiting", failure=STOCK_OUT), TimedOut, 6, id="the engine's words before an older record"
        ),
        pytest.param(fails("x", failure=replace(STOCK_OUT, at=START)), NoCapacity, 4, id="a record of this run"),
        pytest.param(fails("x", failure=replace(STOCK_OUT, at=START - SLACK)), NoCapacity, 4, id="a record by another clock"),
        pytest.param(fails("x", failure=replace(STOCK_OUT, at=START - HOUR)), EngineFailed, 1, id="a record of an earlier run"),
        pytest.param(fails("something new", known=False), EngineFailed, 1, id="unknown"),
        pytest.param(fails("refused by rule kept\n  why: it lives\n  way out: --replace"), Refused, 3, id="the program's refusal"),
    ],
)
def test_a_failed_engine_is_classified(up_fails, error, code):
    with pytest.raises(error) as caught:
        run(World(ups=up_fails))
    assert int(caught.value.exit_code) == code
    if error is not Refused:
        assert "kept.log" in caught.value.way_out


def test_a_refusal_of_the_program_keeps_its_words():
    with pytest.raises(Refused) as caught:
        run(World(ups=fails("error: refused by rule kept-zone\n  why: it lives\n  way out: use --replace")))
    assert caught.value.as_dict() == {"refused": {"rule": "kept-zone", "why": "it lives", "way_out": "use --replace"}}


def test_what_the_program_says_of_a_key_is_a_bad_configuration():
    said = "flexserve:target.host_image: ami-1 is for x86_64, g5g.xlarge is arm64\n  why: its name\n  way out: take an arm64 image"
    with pytest.raises(BadConfig) as caught:
        run(World(ups=fails(said)))
    error = caught.value
    assert error.what.endswith("g5g.xlarge is arm64") and (error.why, error.exit_code) == ("its name", ExitCode.USAGE)
    assert error.way_out.startswith("take an arm64 image")


@pytest.mark.parametrize("error", [MissingProgram("p is not on PATH"), BadConfig("unknown access"), Gone("closed")])
def test_what_waiting_cannot_mend_ends_it_at_once(error):
    world = World(answers=[error])
    with pytest.raises(type(error)):
        run(world)
    assert world.calls == ["up", "ask"]


def test_a_standard_machine_is_refused_loudly():
    def standard(world: World) -> Changes:
        changes = created(world)
        world.live.machine = machine(provisioning="standard")
        return changes

    with pytest.raises(WrongMachine, match="is standard, not flex_start") as caught:
        run(World(ups=standard))
    assert "flexserve down" in caught.value.way_out and caught.value.exit_code == ExitCode.FAILED


def test_an_unknown_provisioning_is_said():
    def silent(world: World) -> Changes:
        changes = created(world)
        world.live.machine = machine(provisioning="")
        return changes

    assert any("does not say how" in line for line in run(World(ups=silent))[2])


def test_it_expires_while_one_waits():
    def gone(world: World) -> Changes:
        changes = created(world)

        def close() -> None:
            world.live.machine, world.live.clock.at = None, 14400.0

        world.clock.on_sleep = [close]
        return changes

    with pytest.raises(Gone, match="expired") as caught:
        run(World(ups=gone), timeout_s=1e6)
    assert int(caught.value.exit_code) == 8


def test_one_that_begins_to_serve_when_its_window_is_over_does_not_serve():
    def late(world: World) -> Changes:
        changes = created(world)
        world.clock.on_sleep = [lambda: setattr(world.live.clock, "at", 14401.0)]
        return changes

    with pytest.raises(Gone, match="expired") as caught:
        run(World(ups=late), timeout_s=1e6)
    assert int(caught.value.exit_code) == 8 and "still there" in caught.value.why
    assert caught.value.way_out.startswith("`flexserve down -s s` deletes it, then flexserve up -s s")


def test_it_is_reclaimed_while_one_waits():
    def gone(world: World) -> Changes:
        changes = created(world)
        world.clock.on_sleep = [lambda: setattr(world.live, "machine", None)]
        return changes

    with pytest.raises(Gone, match="reclaimed"):
        run(World(ups=gone))


@pytest.mark.parametrize(("after", "error"), [(None, Gone), ("TERMINATED", FlexserveError)])
def test_a_machine_that_is_stopping_is_looked_at_again(after: str | None, error: type[FlexserveError]):
    """The cloud shows STOPPING both while it takes a machine back and while one is switched off."""

    def ending(world: World) -> Changes:
        changes = created(world)
        world.live.machine = machine(cloud_state="STOPPING")
        then = machine(cloud_state=after) if after else None
        world.clock.on_sleep = [lambda: setattr(world.live, "machine", then)]
        return changes

    with pytest.raises(error) as caught:
        run(World(ups=ending))
    assert type(caught.value) is error


def test_no_report_in_ten_minutes_is_a_failure_of_its_own():
    def mute(world: World) -> Changes:
        changes = created(world)
        world.clock.on_sleep = []
        return changes

    with pytest.raises(TimedOut, match="has reported nothing for 10m"):
        run(World(ups=mute))


def test_the_limit_names_phase_and_trouble():
    def slow(world: World) -> Changes:
        changes = created(world)
        world.clock.on_sleep = [lambda: setattr(world.live, "report", boot("booting", phase="compile"))]
        return changes

    with pytest.raises(TimedOut, match="does not serve after 2m; it is created, phase compile"):
        run(World(ups=slow), timeout_s=120)


def test_a_late_tunnel_grant_is_waited_for_and_a_missing_one_is_not():
    world = World(answers=[NoAccess("not yet"), NoAccess("not yet"), "nonce1"])
    assert run(world)[0].answer.ok
    with pytest.raises(NoAccess):
        run(World(answers=[NoAccess("no permission")] * 1000))


def test_ctrl_c_while_waiting_says_what_goes_on():
    def stopped(world: World) -> Changes:
        changes = created(world)

        def press() -> None:
            raise KeyboardInterrupt

        world.clock.on_sleep = [press]
        return changes

    with pytest.raises(Interrupted, match="goes on booting and bills") as caught:
        run(World(ups=stopped))
    assert int(caught.value.exit_code) == 130 and "flexserve down" in caught.value.way_out


def test_an_interrupted_engine_stays_interrupted():
    def interrupted(world: World) -> Changes:
        raise Interrupted("interrupted; the engine finished")

    with pytest.raises(Interrupted, match="the engine finished"):
        run(World(ups=interrupted))


@pytest.mark.parametrize(
    ("report", "answers"),
    [
        (boot("booting", phase="docker"), []),
        (boot(), [FlexserveError("nobody listens")] * 900),
        (boot(), [BadConfig("no such proxy")]),
        (boot(), [NoAccess("no permission")] * 900),
        (failed_boot(), []),
        (None, []),
    ],
    ids=["too slow", "no answer", "bad config", "no access", "failed", "no report"],
)
def test_whatever_ends_the_waiting_says_that_the_machine_bills(report, answers):
    world = World(answers=list(answers)).lives()
    world.live.report = report
    with pytest.raises(FlexserveError) as caught:
        until_serving(world.parts(), world.live, world.ref, timeout_s=1200, report=lambda status: None)
    assert "bills" in caught.value.way_out and "flexserve down -s s" in caught.value.way_out


def test_a_machine_that_is_gone_does_not_bill():
    world = World().lives()
    world.live.machine, world.live.clock.at = None, WINDOW_S + 1
    with pytest.raises(Gone) as caught:
        until_serving(world.parts(), world.live, world.ref, timeout_s=600, report=lambda status: None)
    assert "bills" not in str(caught.value)
