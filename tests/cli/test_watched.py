"""The engine is stopped once the target knows that what it makes will not serve; and what `--wait-out` does then."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from flexserve.commands.down import page
from flexserve.lifecycle import watched
from flexserve.lifecycle.cleared import cleared
from flexserve.lifecycle.down import down
from flexserve.lifecycle.parts import Changes, EngineFailed
from flexserve.lifecycle.up import Wanted, up
from flexserve.lifecycle.watched import WatchedEngine
from infra.clouds.http import NoNetwork
from infra.targets.protocol import Billable, DeploymentRef, Machine
from infra.targets.sagemaker.verdicts import CrashLoop
from tests.cli.fakes import START, FakeLive, World, fails, machine, outputs
from verdict.errors import FlexserveError, Interrupted, LeftBehind, NoCapacity, Refused

REF = DeploymentRef("s", "id1", {})


class Watching(FakeLive):
    """Tells its verdict from the given look of a run on. `stands`: what serves on then. `blind`: so often it cannot be asked."""

    def __init__(self, after: int, *, stands: str = "", blind: int = 0) -> None:
        super().__init__()
        self.looks, self.after, self.stands, self.blind = 0, after, stands, blind
        self.begun: list[bool] = []
        self.said: tuple[str, ...] = ()

    def watch(self, deployment: DeploymentRef, *, new: bool = False) -> Watching:
        if self.blind > 0:
            self.blind -= 1
            raise NoNetwork("nobody answers")
        self.begun.append(new)
        self.looks = 0
        return self

    def hopeless(self, deployment: DeploymentRef) -> FlexserveError | None:
        raise AssertionError("a run is not judged by what was before it")

    def look(self, said: Sequence[str] = ()) -> FlexserveError | None:
        self.looks, self.said = self.looks + 1, tuple(said)
        return NoCapacity("none left", why="by its words", way_out="elsewhere") if self.looks > self.after else None


class Working:
    """An engine that works until it is stopped, or for some looks."""

    def __init__(self, *, deaf: bool = False, ends: bool = False) -> None:
        self.stopped, self.ended = threading.Event(), threading.Event()
        self.deaf, self.ends, self.calls = deaf, ends, []

    def stop(self, *, hard: bool = False) -> None:
        self.calls.append("hard" if hard else "soft")
        if hard or not self.deaf:
            self.stopped.set()

    def preview(self) -> Changes:
        return Changes({"create": 1})

    def destroy(self) -> Changes:
        return Changes({"delete": 1})

    def up(self, **options: object) -> Changes:
        self.calls.append(options)
        if self.ends:
            return Changes({"create": 1})
        assert self.stopped.wait(20)
        raise EngineFailed("pulumi up failed", diagnostics=("cancelled",))


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(watched, "LOOK_S", 0.01)
    monkeypatch.setattr(watched, "PATIENCE_S", 0.2)


def engine(inner, live, ref=REF, said=None):
    return WatchedEngine("s", inner, lambda: ref, lambda _: live, (said if said is not None else []).append)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_verdict_stops_the_engine_and_is_the_error(deaf):
    inner = Working(deaf=deaf)
    with pytest.raises(NoCapacity) as error:
        engine(inner, Watching(after=2)).up(rerun=False)
    assert inner.calls == [{"rerun": False}, "soft", *(["hard"] if deaf else [])]
    assert "flexserve down -s s" in error.value.way_out and error.value.way_out.startswith("elsewhere")


def test_an_update_that_was_rolled_back_went_well_and_is_an_error_all_the_same():
    with pytest.raises(NoCapacity):
        engine(Working(ends=True), Watching(after=0)).up()


def test_without_a_verdict_the_engine_has_the_word():
    assert engine(Working(ends=True), Watching(after=99)).up().counts == {"create": 1}
    inner = Working()
    inner.stopped.set()
    with pytest.raises(EngineFailed):
        engine(inner, Watching(after=99)).up()


def test_the_cause_is_asked_for_once_more_when_the_engine_failed_first():
    inner = Working()
    inner.stopped.set()
    live = Watching(after=0)
    with pytest.raises(NoCapacity):
        engine(inner, live, REF).up()
    assert live.said == ("cancelled",)


def test_a_target_that_cannot_watch_is_left_alone():
    assert engine(Working(ends=True), FakeLive()).up().counts == {"create": 1}


def test_nothing_is_watched_before_there_is_an_id():
    live = Watching(after=0)
    assert engine(Working(ends=True), live, ref=None).up().counts == {"create": 1} and live.looks == 0 and live.begun == []


def test_what_is_there_is_seen_before_the_engine_begins_and_each_run_begins_anew():
    live = Watching(after=99)

    class Beginning(Working):
        def up(self, **options: object) -> Changes:
            assert live.begun[-1:] == [False]
            return super().up(**options)

    watched_engine = engine(Beginning(ends=True), live)
    watched_engine.up()
    watched_engine.up()
    assert live.begun == [False, False]


def test_an_id_that_the_run_makes_has_nothing_before_it():
    live, refs = Watching(after=99), iter([None])
    WatchedEngine("s", Working(ends=True), lambda: next(refs, REF), lambda _: live, [].append).up()
    assert live.begun == [True]


def test_what_could_not_be_seen_before_begins_with_the_first_look():
    live = Watching(after=0, blind=2)
    with pytest.raises(NoCapacity):
        engine(Working(), live).up()
    assert live.begun == [False]


def test_an_update_that_failed_says_what_serves_on_and_to_mend_it_and_not_to_delete():
    said: list[str] = []
    with pytest.raises(NoCapacity) as error:
        engine(Working(), Watching(after=0, stands="fs-1 serves on as before (1 ml.g6.xlarge, configuration a)"), said=said).up()
    found = error.value
    assert found.what == "the update failed: none left" and found.why.endswith(
        "\nfs-1 serves on as before (1 ml.g6.xlarge, configuration a)"
    )
    assert found.way_out.startswith("elsewhere; then `flexserve up -s s` again; nothing has to be deleted")
    assert said == ["the update failed: none left; the engine is asked to end"]


def test_an_interruption_stays_one():
    class Interrupting(Working):
        def up(self, **options: object) -> Changes:
            raise Interrupted("ctrl-c")

    with pytest.raises(Interrupted):
        engine(Interrupting(), Watching(after=0)).up()


class Held(FakeLive):
    """Cannot be deleted for some looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def held(self, deployment: DeploymentRef) -> str:
        self.looks -= 1
        return "fs-1 is Creating" if self.looks >= 0 else ""

    def holder(self, deployment: DeploymentRef) -> Billable | None:
        return next((t for t in self.things if t.kind == "endpoint"), None)


class Failed(Held):
    """An endpoint that failed, or (`verdict`) will. Deleting it leaves nothing to find."""

    def __init__(self, looks: int = 0, verdict: FlexserveError | None = None) -> None:
        super().__init__(looks)
        self.verdict = verdict
        self.machine = machine(dead="" if verdict else "CannotStartContainerError")
        self.things = [Billable("endpoint", "fs-1", "here", 1.0)]

    def hopeless(self, deployment: DeploymentRef) -> FlexserveError | None:
        return self.verdict

    def watch(self, deployment: DeploymentRef, *, new: bool = False) -> Watching:
        raise AssertionError("no run has begun")

    def delete(self, thing: Billable) -> None:
        super().delete(thing)
        self.machine = None


def again(live, outputs=None):
    """`up` over what an earlier one left: what was asked, said and done."""
    world, said, asked = World(live=live), [], []
    world.ref = DeploymentRef("s", "id1", outputs or {"id": "id1"})

    def consent(changes):
        asked.append((changes, list(live.deleted)))

    wanted = Wanted(("flex_start",), 1800)
    return world, up(world.parts(), wanted, consent=consent, report=lambda _: None, say=said.append), said, asked


@pytest.mark.parametrize(
    "live",
    [Failed(), Failed(3, CrashLoop("the server ended 3 times"))],
    ids=["failed", "will-fail"],
)
def test_up_over_one_that_never_served_deletes_it_and_makes_it_anew(live):
    held = live.looks
    world, served, said, asked = again(live)
    assert asked == [(None, [])]  # it costs what a new one costs, and nothing is deleted before the answer
    assert live.deleted == ["fs-1"] and world.calls == ["up", "ask"] and served.answer.ok
    assert any("never served and never will" in line for line in said) and (held == 0 or any("Creating" in line for line in said))


def test_one_that_the_engine_knows_and_that_is_dead_goes_too():
    live = Failed()
    world, _, _, _ = again(live, {**outputs()})
    assert live.deleted == ["fs-1"] and world.calls == ["up", "ask"]


def test_one_that_may_still_serve_or_has_served_is_left_alone():
    for live, known in ((Held(10**9), False), (Failed(10**9, CrashLoop("x")), True)):
        live.machine = machine()
        world = World(live=live, previewed=Changes({"update": 1}))
        world.ref = DeploymentRef("s", "id1", outputs() if known else {"id": "id1"})
        world.ups = fails("it is still there")
        with pytest.raises(EngineFailed):
            up(world.parts(), Wanted(("flex_start",), 1800), consent=lambda _: None, report=lambda _: None, say=lambda _: None)
        assert world.calls == ["preview", "up"] and live.deleted == []


def test_what_cannot_be_deleted_stops_up():
    live = Failed()
    live.undeletable = {"fs-1"}
    with pytest.raises(FlexserveError, match="in use"):
        again(live)


def test_wait_out_does_not_keep_one_that_never_served():
    world = World(live=Failed())
    world.ref = REF
    with pytest.raises(NoCapacity):
        cleared(world.parts(), failing(NoCapacity("none")), lambda _: None)
    assert "destroy" in world.calls


def test_down_waits_until_the_cloud_lets_go_before_the_engine_deletes():
    said: list[str] = []
    world = World(live=Held(3)).lives()
    down(world.parts(), purge=False, say=said.append, tokens=lambda _: None)
    assert [line for line in said if "Creating" in line] and world.clock.at == pytest.approx(15.0)
    assert world.calls == ["destroy"]


ENDPOINT, ROLE = Billable("endpoint", "fs-1", "here", 1.0), Billable("role", "fs-1-run", "global", 0.0)


@pytest.mark.parametrize("known", [False, True])
def test_a_machine_goes_before_what_it_needs_whether_the_engine_knows_it_or_not(known):
    order: list[list[str]] = []
    world = World(live=Held(0)).lives()
    if not known:
        world.ref = REF
    world.live.things = [ROLE, ENDPOINT]

    def destroys(w: World) -> Changes:
        order.append(list(w.live.deleted))
        w.live.things = []
        return Changes({"delete": 1})

    world.destroys = destroys
    gone = down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None)
    assert order == [["fs-1"]] and not gone.left_behind
    assert [b.get("name", b.get("count")) for b in gone.as_dict()["deleted"]] == [1, "fs-1"]
    assert "2 things deleted" in page(gone) and "the engine had left" not in page(gone)


def test_what_it_needs_stays_while_it_does_not_go():
    world = World(live=Held(0)).lives()
    world.live.things, world.live.undeletable = [ENDPOINT, ROLE], {"fs-1"}
    gone = down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None)
    assert world.calls == [] and world.live.deleted == [] and gone.left_behind == (ENDPOINT, ROLE)
    assert world.note.held is not None


def test_the_id_of_what_is_kept_is_remembered_for_a_purge():
    world = World(live=Held(0)).lives()
    world.live.things = [Billable("repository", "fs-1", "here", 0.1, "holds images")]
    gone = down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None)
    assert gone.kept and world.note.held is not None
    world.ref = None
    gone = down(world.parts(), purge=True, say=lambda _: None, tokens=lambda _: None)
    assert not gone.kept and world.live.deleted == ["fs-1"] and world.note.held is None


def test_down_does_not_wait_for_ever():
    world = World(live=Held(10**9)).lives()
    down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None)
    assert world.calls == ["destroy"] and world.clock.at < 82 * 60


def failing(error):
    def make():
        raise error

    return make


def test_wait_out_deletes_what_failed_and_keeps_its_error():
    world = World()
    world.ref = REF
    with pytest.raises(NoCapacity) as error:
        cleared(world.parts(), failing(NoCapacity("none", way_out="x; `flexserve down -s s` deletes")), lambda _: None)
    assert world.calls == ["destroy"] and error.value.way_out == "x; all of it is deleted"


def test_wait_out_says_what_is_left():
    world = World()
    world.ref = REF
    world.live.things, world.live.undeletable = [Billable("endpoint", "fs-1", "here", 1.0)], {"fs-1"}
    with pytest.raises(LeftBehind, match="endpoint fs-1"):
        cleared(world.parts(), failing(NoCapacity("none")), lambda _: None)


@pytest.mark.parametrize("error", [Refused("r", why="w", way_out="o"), Interrupted("i")])
def test_wait_out_leaves_everything_after_a_refusal_or_ctrl_c(error):
    world = World()
    world.ref = REF
    with pytest.raises(type(error)):
        cleared(world.parts(), failing(error), lambda _: None)
    assert world.calls == []


NEWER = machine(created_at=START + timedelta(hours=1))
NOW = [
    ("as before", machine(), True),
    ("another one in its place", NEWER, False),
    ("none", None, False),
    ("dead", machine(dead="CannotStartContainerError"), False),
    ("nobody can tell", NoNetwork("nobody answers"), True),
]


@pytest.mark.parametrize(("now", "stays"), [n[1:] for n in NOW], ids=[n[0] for n in NOW])
def test_wait_out_deletes_what_this_run_made_and_says_what_it_leaves(now, stays):
    said: list[str] = []
    world = World().lives()

    def make() -> None:
        world.live.machine = now
        raise NoCapacity("none")

    class Answering(FakeLive):
        def find(self, deployment: DeploymentRef) -> Machine | None:
            if isinstance(self.machine, Exception):
                raise self.machine
            return self.machine

    world.live.__class__ = Answering
    with pytest.raises(NoCapacity):
        cleared(world.parts(), make, said.append)
    assert world.calls == ([] if stays else ["destroy"])
    assert any(line.startswith("--wait-out deletes nothing: ") and "fs-1" in line for line in said) == stays
