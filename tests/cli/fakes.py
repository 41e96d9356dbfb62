"""A cloud, an engine, a clock and a server that do what a test tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from flexserve.checks.nonce import Answer
from flexserve.lifecycle.parts import Changes, EngineFailed, Parts
from infra.targets.protocol import Billable, DeploymentRef, Failure, Machine
from startup.phases import BootStatus, Phase
from verdict.errors import FlexserveError, NoAccess, NoCapacity, TimedOut

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WINDOW_S = 14400
OLD, NEW = "a" * 64, "b" * 64


class FakeClock:
    """Turned by sleeping; `on_sleep` lets the world move on."""

    def __init__(self) -> None:
        self.at = 0.0
        self.on_sleep: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        if self.on_sleep:
            self.on_sleep.pop(0)()


def boot(state: str = "serving", script: str = OLD, **more: object) -> BootStatus:
    phases = (Phase("docker", 0.0, 3.2, "done"), Phase("serving", 3.2, 1.0, "done"))
    base = BootStatus(state, script, "serving", "", 0, 0, "boot-1", phases)
    return replace(base, **more)


def failed_boot(phase: str = "token", cause: str = "secret hf-token is empty") -> BootStatus:
    phases = (Phase("docker", 0.0, 3.2, "done"), Phase(phase, 3.2, 1.0, "failed", cause=cause, log_tail="last words of the phase"))
    return boot("failed", phase=phase, cause=cause, phases=phases)


@dataclass
class FakeLive:
    """One project's running side. `machine` and `report` are what a look finds."""

    machine: Machine | None = None
    report: BootStatus | None = None
    failure: Failure | None = None
    things: list[Billable] = field(default_factory=list)
    undeletable: set[str] = field(default_factory=set)
    text: str = ""
    clock: FakeClock = field(default_factory=FakeClock)
    deleted: list[str] = field(default_factory=list)
    passed: timedelta = timedelta()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.clock.at) + self.passed

    def find(self, deployment: DeploymentRef) -> Machine | None:
        return self.machine

    def boot(self, deployment: DeploymentRef) -> BootStatus | None:
        return self.report if self.machine else None

    def log(self, deployment: DeploymentRef, *, since: int = 0) -> tuple[str, int]:
        return self.text[since:], len(self.text)

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        return list(self.things)

    def delete(self, thing: Billable) -> None:
        if thing.name in self.undeletable:
            raise FlexserveError(f"{thing.name} is in use")
        self.deleted.append(thing.name)
        self.things = [t for t in self.things if t != thing]

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        return self.failure

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        words = f"{code} {text}"
        for mark, error in (
            ("EXHAUSTED", NoCapacity("the zone has none of this machine type now")),
            ("QUOTA", NoAccess("a quota is used up")),
            ("timeout while waiting", TimedOut("the cloud did not finish in time")),
        ):
            if mark in words:
                return error
        return None


def machine(**more: object) -> Machine:
    base = Machine("fs-1", "europe-west4-a", "RUNNING", START, START + timedelta(seconds=WINDOW_S), {}, "flex_start")
    return replace(base, **more)


def outputs(script: str = OLD) -> dict[str, object]:
    return {
        "target": "gce_flex",
        "id": "id1",
        "instance": "fs-1",
        "zone": "europe-west4-a",
        "window_s": float(WINDOW_S),
        "expires_at": (START + timedelta(seconds=WINDOW_S)).isoformat(),
        "script_sha256": script,
        "price_per_hour": 1.5,
        "price_unknown": ["disk"],
        "access": {"kind": "iap", "project": "p", "zone": "europe-west4-a", "instance": "fs-1"},
    }


@dataclass
class FakeNote:
    """`down`'s note, in memory."""

    held: DeploymentRef | None = None

    def read(self) -> DeploymentRef | None:
        return self.held

    def write(self, ref: DeploymentRef) -> None:
        self.held = ref

    def remove(self) -> None:
        self.held = None


@dataclass
class World:
    """What surrounds one stack. `ups` is run by `engine.up`; `previewed` is what a preview would change."""

    live: FakeLive = field(default_factory=FakeLive)
    clock: FakeClock = field(default_factory=FakeClock)
    ref: DeploymentRef | None = None
    previewed: Changes = field(default_factory=Changes)
    ups: Callable[[World], Changes] | None = None
    destroys: Callable[[World], Changes] | None = None
    answers: list[str | FlexserveError] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    exists: bool = True
    bare: bool = False
    note: FakeNote = field(default_factory=FakeNote)

    def __post_init__(self) -> None:
        self.live.clock = self.clock

    def parts(self) -> Parts:
        return Parts(
            "s",
            lambda: self.exists,
            lambda: self.ref,
            lambda ref: self.live,
            lambda: self,
            self.ask,
            self.note,
            self.clock,
            bare=lambda: self.bare,
        )

    def preview(self) -> Changes:
        self.calls.append("preview")
        return self.previewed

    def up(self, *, rerun: bool = False, place: str = "") -> Changes:
        self.calls.append("rerun" if rerun else f"up {place}".strip())
        return (self.ups or created)(self)

    def destroy(self) -> Changes:
        self.calls.append("destroy")
        return (self.destroys or destroyed)(self)

    def ask(self, ref: DeploymentRef) -> Answer:
        self.calls.append("ask")
        given = self.answers.pop(0) if self.answers else "nonce1"
        if isinstance(given, FlexserveError):
            raise given
        return Answer("nonce1", given, "model", 0.5)

    def lives(self, report: BootStatus | None = None, script: str = OLD) -> World:
        """A deployment that is up."""
        self.ref = DeploymentRef("s", "id1", outputs(script))
        self.live.machine, self.live.report = machine(), report or boot()
        return self


def created(world: World) -> Changes:
    """What a good `up` leaves: a machine, which serves after the third look."""
    world.ref = DeploymentRef("s", "id1", outputs())
    world.live.machine = machine()

    def booting() -> None:
        world.live.report = boot("booting", phase="docker")

    def serving() -> None:
        world.live.report = boot()

    world.clock.on_sleep = [booting, serving]
    return Changes({"create": 12})


def destroyed(world: World) -> Changes:
    world.ref, world.live.machine = None, None
    return Changes({"delete": 12})


def fails(*diagnostics: str, failure: Failure | None = None, known: bool = True) -> Callable[[World], Changes]:
    """An `up` that ends in an error; the state keeps the id, as the program wrote it first."""

    def run(world: World) -> Changes:
        if known:
            world.ref = DeploymentRef("s", "id1", {"id": "id1"})
        world.live.failure = failure
        raise EngineFailed("pulumi up failed", diagnostics=diagnostics, log="kept.log")

    return run
