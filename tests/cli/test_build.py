"""`build` with a fake builder, cloud and clock: made once, watched, and gone whatever happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from flexserve.commands.build import before_up, text
from flexserve.lifecycle.builder import LAST, BuildFailed, Made, Surroundings, Wanted, build
from flexserve.lifecycle.down import down
from flexserve.lifecycle.parts import Leftover
from flexserve.lifecycle.state import Status
from flexserve.output import Output
from infra.built import NoBuild
from infra.targets.protocol import Billable, DeploymentRef, KeptBuild
from tests.cli.fakes import START, FakeClock, FakeLive, FakeNote, World, boot, failed_boot, machine
from verdict.errors import FlexserveError, Gone, Interrupted, LeftBehind, NoAccess, NoCapacity, TimedOut
from verdict.exit_codes import ExitCode

VM = Billable("instance", "i-1", "us-east-1a", 0.6)
BUCKET = Billable("bucket", "fs-b", "us-east-1", 0.0001, kept="holds 1.0 GiB of kept builds")
KEPT = KeptBuild("s3://fs-b/builds/key/", 1_200_000_000, {"arch_list": ["sm_75"]})


class Ends(FakeLive):
    """The running side, which still knows what became of the machine."""

    ended_by = ""

    def boot(self, deployment: DeploymentRef):
        return self.report

    def ended(self, deployment: DeploymentRef) -> str:
        return self.ended_by


@dataclass
class FakeBuilds:
    """`then` are what happens while one waits, look after look."""

    side: Ends = field(default_factory=Ends)
    key: str = "key"
    have: KeptBuild | None = None
    lives: DeploymentRef | None = None
    refused: FlexserveError | None = None
    then: list[Callable[[FakeBuilds], None]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    def kept(self) -> KeptBuild | None:
        return self.have

    def find(self) -> DeploymentRef | None:
        return self.lives

    def ref(self, id_: str) -> DeploymentRef:
        return DeploymentRef("s", id_, {"build": self.key, "bucket": "fs-b"})

    def live(self, ref: DeploymentRef) -> Ends:
        return self.side

    def begin(self, ref: DeploymentRef, say: Callable[[str], None]) -> None:
        self.begun.append(ref.id)
        self.side.things = [VM]
        if self.refused:
            raise self.refused
        self.starts()

    def starts(self) -> None:
        self.side.machine = machine(name="fs-b-builder", where="us-east-1a")
        self.side.clock.on_sleep = [lambda step=step: step(self) for step in self.then]

    def price_now(self) -> float | None:
        return None


def says(state: str, phase: str = "wheel", **more: object) -> Callable[[FakeBuilds], None]:
    def step(builds: FakeBuilds) -> None:
        builds.side.report = boot(state, phase=phase, **more)

    return step


def done(builds: FakeBuilds) -> None:
    says("done", "keep")(builds)
    builds.have, builds.side.things = KEPT, [VM, BUCKET]


def gone(builds: FakeBuilds) -> None:
    builds.side.machine = None


def press(_: FakeBuilds) -> None:
    raise KeyboardInterrupt


@dataclass
class Run:
    builds: FakeBuilds
    note: FakeNote = field(default_factory=FakeNote)
    clock: FakeClock = field(default_factory=FakeClock)
    said: list[str] = field(default_factory=list)
    seen: list[Status] = field(default_factory=list)
    asked: int = 0

    def __call__(self, price: float | None = 1.2) -> Made:
        self.builds.side.clock = self.clock
        return build(
            Surroundings(self.builds, self.note, self.clock),
            Wanted("s", price),
            consent=self.consent,
            report=self.seen.append,
            say=self.said.append,
        )

    def consent(self) -> None:
        self.asked += 1


def test_made_and_kept_and_the_builder_is_gone():
    run = Run(FakeBuilds(then=[says("booting"), says("booting"), done]))
    made = run()
    assert made.made and made.kept is KEPT and run.asked == 1 and made.seconds == 6
    assert made.cost == round(6 / 3600 * 1.2, 4) and made.as_dict()["place"] == KEPT.place
    assert run.builds.side.deleted == ["i-1"] and run.builds.side.things == [BUCKET]
    assert run.note.held is not None  # its bucket is kept: `down --purge` must find it
    assert run.said[-1] == "the builder is gone" and "made and kept, 1.2 GB" in text(made)


def test_a_report_that_was_written_while_the_builder_was_taken_away_goes_too():
    report = Billable("object", "fs-b/id/report", "us-east-1")

    class Late(Ends):
        """Its machine writes once more while it is deleted."""

        def delete(self, thing: Billable) -> None:
            super().delete(thing)
            if thing == VM:
                self.things = [*self.things, report]

    run = Run(FakeBuilds(side=Late(), then=[done]))
    assert run().made and run.builds.side.deleted == ["i-1", report.name] and run.builds.side.things == [BUCKET]


def test_an_unknown_price_stays_unknown():
    made = Run(FakeBuilds(then=[done]))(None)
    assert made.cost is None and "at a price that is unknown" in text(made)


def test_one_that_is_kept_is_not_made_again():
    run = Run(FakeBuilds(have=KEPT))
    made = run()
    assert not made.made and run.asked == 0 and run.builds.begun == [] and "kept already" in text(made)


def test_what_a_killed_command_left_is_taken_away_when_the_build_is_there():
    run = Run(FakeBuilds(have=KEPT), FakeNote(DeploymentRef("s", "old", {"build": "key"})))
    run.builds.side.things = [VM]
    assert not run().made and run.builds.side.deleted == ["i-1"] and run.note.held is None


def test_one_at_work_on_another_build_goes_on_when_this_one_is_kept():
    run = Run(FakeBuilds(have=KEPT), FakeNote(DeploymentRef("s", "old", {"build": "other"})))
    run.builds.side.machine, run.builds.side.things = machine(), [VM]
    assert not run().made and run.builds.side.deleted == [] and run.note.held is not None


@pytest.mark.parametrize("noted", ["this", "another", "none"])
def test_one_that_is_at_work_is_watched_and_nobody_is_asked(noted):
    """By its note; or by its tags, also beside the note of one that is gone."""
    ref = DeploymentRef("s", "old", {"build": "key", "bucket": "fs-b"})
    note = {"this": ref, "another": DeploymentRef("s", "gone", {"build": "key"}), "none": None}[noted]
    run = Run(FakeBuilds(then=[done], lives=None if noted == "this" else ref), FakeNote(note))
    found, run.builds.side.find = run.builds.side.find, lambda asked: None if asked.id == "gone" else found(asked)
    run.builds.side.things = [VM]
    run.builds.side.clock = run.clock
    run.builds.starts()
    assert run().made and run.asked == 0 and run.builds.begun == []
    assert run.said[0] == "fs-b-builder in us-east-1a is at work already; watches it to its end"


def test_one_at_work_on_another_build_is_left_alone():
    run = Run(FakeBuilds(lives=DeploymentRef("s", "old", {"build": "other"})))
    run.builds.side.machine, run.builds.side.things = machine(), [VM]
    with pytest.raises(FlexserveError, match="another build, other") as error:
        run()
    assert run.builds.side.deleted == [] and "flexserve down" in error.value.way_out


def test_a_failure_is_told_with_the_compilers_last_lines():
    failure = failed_boot("wheel", 'build-compiler: vLLM does not compile (x.cu(12): error: identifier "x" is undefined)')
    run = Run(FakeBuilds(then=[says("booting"), lambda b: setattr(b.side, "report", failure)]))
    with pytest.raises(BuildFailed) as error:
        run()
    assert int(error.value.exit_code) == 1 and "phase wheel: build-compiler" in error.value.what
    assert error.value.why == "last words of the phase" and error.value.as_dict()["error"]["phase"] == "wheel"
    assert run.builds.side.deleted == ["i-1"] and run.note.held.outputs[LAST] == error.value.what


def test_a_failure_is_told_also_when_the_machine_went_first():
    run = Run(FakeBuilds(then=[lambda b: (setattr(b.side, "report", failed_boot("checks", "x")), gone(b))]))
    with pytest.raises(BuildFailed):
        run()


@pytest.mark.parametrize("noticed", [True, False])
def test_taken_back_ends_with_8_and_the_next_says_that_it_begins_anew(noticed):
    phases = (*boot("booting").phases, replace(boot("booting").phases[0], name="wheel", result="running", seconds=None))
    last = says("reclaimed", cause="reclaimed at 03:04 UTC") if noticed else gone
    run = Run(FakeBuilds(then=[says("booting", phases=phases), last]))
    run.builds.side.ended_by = "EC2 took the spot machine back"
    with pytest.raises(Gone) as error:
        run()
    assert error.value.exit_code is ExitCode.GONE and run.builds.side.deleted == ["i-1"]
    if not noticed:
        assert error.value.what == "the builder is gone in phase wheel" and "EC2 took" in error.value.why
    assert "starts again" in error.value.way_out

    run.builds.side.machine, run.builds.side.report, run.builds.then = None, None, [done]
    made = run()
    assert made.made and run.builds.begun[0] == run.builds.begun[1]
    assert any(line.startswith("the last builder made no build") and "from the beginning" in line for line in run.said)


def test_off_before_its_report_and_the_build_is_there():
    """The machine is off as soon as it has told; what counts is the bucket."""
    run = Run(FakeBuilds(then=[lambda b: (setattr(b, "have", KEPT), gone(b)), says("done", "keep")]))
    assert run().made


def test_done_without_a_build_is_a_failure():
    run = Run(FakeBuilds(then=[says("done", "keep")]))
    with pytest.raises(FlexserveError, match="no whole build"):
        run()
    assert run.builds.side.deleted == ["i-1"]


def test_ctrl_c_ends_it():
    run = Run(FakeBuilds(then=[says("booting"), press]))
    with pytest.raises(Interrupted) as error:
        run()
    assert error.value.exit_code is ExitCode.INTERRUPTED and run.builds.side.deleted == ["i-1"]
    assert "the builder is gone" in error.value.what


def test_ctrl_c_twice_says_that_it_may_be_there(monkeypatch):
    run = Run(FakeBuilds(then=[press]))
    monkeypatch.setattr(run.builds.side, "delete", press)
    with pytest.raises(Interrupted, match="twice") as error:
        run()
    assert "flexserve down" in error.value.way_out and run.note.held is not None


def test_without_capacity_everything_that_was_made_goes():
    run = Run(FakeBuilds(refused=NoCapacity("the zone has none")))
    with pytest.raises(NoCapacity):
        run()
    assert run.builds.side.deleted == ["i-1"] and run.seen == []


def test_a_builder_that_never_speaks_is_ended():
    run = Run(FakeBuilds(then=[]))
    with pytest.raises(TimedOut, match="reported nothing"):
        run()
    assert run.builds.side.deleted == ["i-1"] and run.clock.at > 600


def test_what_stays_is_said_with_7():
    run = Run(FakeBuilds(then=[done]))
    run.builds.side.undeletable = {"i-1"}
    with pytest.raises(LeftBehind) as error:
        run()
    assert error.value.exit_code is ExitCode.LEFT_BEHIND and "instance i-1" in error.value.why and run.note.held is not None


def test_down_ends_a_builder_and_lists_its_bucket():
    world, side, note = World(), Ends(), FakeNote(DeploymentRef("s", "b", {}))
    side.things = [VM, BUCKET]
    parts = replace(world.parts(), builder=lambda: Leftover(side, note.held, note))
    seen = down(parts, purge=False, say=lambda _: None, tokens=lambda _: None)
    assert seen.swept == (VM,) and seen.kept == (BUCKET,) and seen.left_behind == () and note.held is not None
    assert down(parts, purge=True, say=lambda _: None, tokens=lambda _: None).swept == (BUCKET,) and note.held is None


def test_down_without_access_keeps_its_receipt():
    def closed() -> None:
        raise NoAccess("no AWS credentials")

    said: list[str] = []
    down(replace(World().parts(), builder=closed), purge=False, say=said.append, tokens=lambda _: None)
    assert said == ["whether a builder is left cannot be seen: no AWS credentials"]


@pytest.fixture
def first(monkeypatch, g5g_spot):
    """What `up` does before anything else: (plan's settings, whether --build) -> what was said."""
    import flexserve.commands.build as module
    from catalog.loader import Catalog
    from infra.plan import make_plan

    made: list[str] = []
    monkeypatch.setattr(module, "make", lambda *_, **__: made.append("made") or Made("s", "key", KEPT, True))

    def run(builds: FakeBuilds, *sets: str, wanted: bool = False, world: World | None = None) -> list[str]:
        monkeypatch.setattr(module, "builds_of", lambda *_: builds)
        plan = make_plan(g5g_spot(*sets), Catalog.load())
        before_up(None, plan, (world or World()).parts(), Output(as_json=True), yes=True, wanted=wanted)
        return made

    return run


def test_up_without_a_build_is_refused_before_anything_is_made(first):
    with pytest.raises(NoBuild) as error:
        first(FakeBuilds())
    assert error.value.exit_code is ExitCode.REFUSED and "flexserve build -s g5g-spot makes it" in error.value.way_out
    assert "about 27 minutes on m7g.8xlarge" in error.value.way_out and "up -s g5g-spot --build" in error.value.way_out
    with pytest.raises(NoBuild) as error:
        first(FakeBuilds(), "target.build.where=by_hand")
    assert "docs/operator/g5g-spot.md" in error.value.way_out


def test_up_makes_it_first_when_asked(first):
    assert first(FakeBuilds(), wanted=True) == ["made"]


def test_up_goes_on_with_a_build_with_a_machine_and_where_the_machine_makes_it(first):
    assert first(FakeBuilds(have=KEPT)) == []
    assert first(FakeBuilds(), world=World().lives()) == []
    assert first(FakeBuilds(), "target.build.where=machine", "target.machine_type=g5g.4xlarge") == []


def test_a_bucket_that_may_not_be_looked_into_does_not_stop_up(first, monkeypatch):
    builds = FakeBuilds()
    monkeypatch.setattr(builds, "kept", lambda: (_ for _ in ()).throw(NoAccess("no right")))
    assert first(builds) == []


def test_time_left_is_the_builders_own():
    run = Run(FakeBuilds(then=[done]))
    run()
    assert run.seen[0].stack == "the builder of s" and run.seen[0].seconds_left == 14400 and run.seen[0].expires_at > START
