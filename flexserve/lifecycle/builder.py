"""`build`: the server of a target made once, on a machine of its own, and that machine gone again whatever happened."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType

from flexserve.lifecycle.down import sweep
from flexserve.lifecycle.parts import Clock, RealClock, Unfinished
from flexserve.lifecycle.state import ENDING, STOPPED, Status
from flexserve.lifecycle.wait import INTERVAL_S, NO_REPORT_S
from infra.duration import words
from infra.targets.protocol import Billable, Builds, CanTellEnd, DeploymentRef, KeptBuild, LiveTarget, Machine, State
from startup.phases import BootStatus
from verdict.errors import FlexserveError, Gone, Interrupted, LeftBehind, TimedOut
from verdict.exit_codes import ExitCode

ID_BYTES = 5
LAST = "last"  # the key under which a note keeps why a builder ended without a build
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class BuildFailed(FlexserveError):
    """The builder ran and made no build. It is gone."""

    exit_code = ExitCode.FAILED
    kind = "build-failed"

    def __init__(self, stack: str, phase: str, cause: str, log_tail: str) -> None:
        super().__init__(
            f"the build failed in phase {phase or 'unknown'}: {cause or 'no cause was reported'}",
            why=log_tail.strip(),
            way_out=f"the builder is gone; `flexserve build -s {stack}` makes a new one, which starts from the beginning",
        )
        self.phase, self.cause, self.log_tail = phase, cause, log_tail

    def as_dict(self) -> dict[str, object]:
        """The error with its phase and the end of that phase's log."""
        document = super().as_dict()
        more = {"phase": self.phase, "cause": self.cause, "log_tail": self.log_tail}
        return {"error": {**document["error"], **more}}  # type: ignore[dict-item]


@dataclass(frozen=True)
class Wanted:
    """What the plan says: dollars an hour all in, None when a part is unknown."""

    stack: str
    price_per_hour: float | None = None


@dataclass(frozen=True)
class Surroundings:
    """The builder of one stack, the note of what is under way, a clock."""

    builds: Builds
    note: Unfinished
    clock: Clock = field(default_factory=RealClock)


@dataclass(frozen=True)
class Made:
    """How it ended. `seconds` and `cost` are None when nothing was made."""

    stack: str
    key: str
    kept: KeptBuild
    made: bool
    seconds: int | None = None
    cost: float | None = None
    status: Status | None = None

    def as_dict(self) -> dict[str, object]:
        """The `build --json` document."""
        phases = self.status.as_dict(boot=True)["phases"] if self.status else []
        return {
            "stack": self.stack,
            "key": self.key,
            "place": self.kept.place,
            "bytes": self.kept.size,
            "made": self.made,
            "seconds": self.seconds,
            "cost": self.cost,
            "manifest": dict(self.kept.manifest),
            "phases": phases,
        }


def build(
    s: Surroundings, wanted: Wanted, *, consent: Callable[[], None], report: Callable[[Status], None], say: Callable[[str], None]
) -> Made:
    """The build is in the bucket when this returns, and no builder is left.

    One that lives already is watched to its end. Raises `BuildFailed`, `Gone` after a reclaim, `TimedOut`, what making the machine
    raises, `Interrupted` after Ctrl-C, `LeftBehind` when something stays that bills.
    """
    kept, old = s.builds.kept(), s.note.read()
    if kept is not None:
        left = old or s.builds.find()
        if left is not None and (_ours(s, left) or _at_work(s, left) is None):
            _clear(s, left, say)
        return Made(wanted.stack, s.builds.key, kept, made=False)
    with _interruptible():
        ref = _alive(s, old, say) or _alive(s, s.builds.find(), say)
        if ref is None:
            if old is not None:
                _tell_last(s, old, say)
                _clear(s, old, say)
            consent()
            ref = s.builds.ref(old.id if old is not None else secrets.token_hex(ID_BYTES))
        s.note.write(ref)
        return _made(s, wanted, ref, report, say)


def _made(
    s: Surroundings, wanted: Wanted, ref: DeploymentRef, report: Callable[[Status], None], say: Callable[[str], None]
) -> Made:
    """Make the machine where there is none, watch it, and take it away."""
    live = s.builds.live(ref)
    try:
        if live.find(ref) is None:
            s.builds.begin(ref, say)
        seen = watch(s, wanted, live, ref, report)
    except KeyboardInterrupt as stop:
        say("ends the builder; once more leaves it to its own end")
        _end(s, replace(ref, outputs={**ref.outputs, LAST: "interrupted by the operator"}), say)
        what = "interrupted; the builder is gone and nothing was kept of it"
        raise Interrupted(what, way_out=f"flexserve build -s {wanted.stack} starts again") from stop
    except FlexserveError as error:
        _end(s, replace(ref, outputs={**ref.outputs, LAST: error.what}), say, cause=error)
        raise
    kept = s.builds.kept()
    _end(s, ref, say)
    if kept is None:
        raise FlexserveError(
            "the builder says that it is done, and the bucket has no whole build", way_out=f"flexserve build -s {wanted.stack}"
        )
    seconds = _seconds(seen, live)
    price = wanted.price_per_hour
    cost = None if seconds is None or price is None else round(seconds / 3600 * price, 4)
    return Made(wanted.stack, s.builds.key, kept, True, seconds, cost, seen.status)


@dataclass
class _Seen:
    """The last look while the builder lived."""

    status: Status
    machine: Machine | None


def watch(s: Surroundings, wanted: Wanted, live: LiveTarget, ref: DeploymentRef, report: Callable[[Status], None]) -> _Seen:
    """Look until it is done. Raises for every other end."""
    began, machine, boot = s.clock.monotonic(), None, None
    while True:
        now = live.find(ref)
        machine = now or machine
        boot = live.boot(ref) or boot
        status = _status(wanted, ref, live, machine, boot)
        report(status)
        if boot is not None and boot.state == "done":
            return _Seen(status, machine)
        _give_up(s, wanted, live, ref, now, boot)
        if boot is None and s.clock.monotonic() - began > NO_REPORT_S:
            raise TimedOut(
                f"the builder was made and has reported nothing for {words(int(NO_REPORT_S))}",
                why="its script never ran, or it reaches neither the bucket nor Systems Manager",
                way_out="look at target.network and target.egress, then try again",
            )
        s.clock.sleep(INTERVAL_S)


def _give_up(
    s: Surroundings, wanted: Wanted, live: LiveTarget, ref: DeploymentRef, machine: Machine | None, boot: BootStatus | None
) -> None:
    """Raise when there is nothing to wait for."""
    if boot is not None and boot.state == "failed":
        failed = next((p for p in reversed(boot.phases) if p.result == "failed"), None)
        raise BuildFailed(wanted.stack, boot.phase, boot.cause, failed.log_tail if failed else "")
    again = f"flexserve build -s {wanted.stack} starts again: what it had compiled went with it"
    if boot is not None and boot.state == "reclaimed":
        raise Gone(f"the builder was taken back{_in(boot)}", why=boot.cause, way_out=again)
    if machine is not None and machine.cloud_state.lower() not in (STOPPED - ENDING):
        return
    if s.builds.kept() is not None:
        return  # its report is late, or was not taken; the build is there
    ended = live.ended(ref) if isinstance(live, CanTellEnd) else ""
    raise Gone(f"the builder is gone{_in(boot)}", why=ended or "the cloud took it back, or somebody deleted it", way_out=again)


def _in(boot: BootStatus | None) -> str:
    if boot is None:
        return ""
    running = [p.name for p in boot.phases if p.result == "running"]  # at a notice its phases are stopped first
    phase = running[-1] if running else boot.phase
    return f" in phase {phase}" if phase else ""


def _status(wanted: Wanted, ref: DeploymentRef, live: LiveTarget, machine: Machine | None, boot: BootStatus | None) -> Status:
    expires = machine.expires_at if machine else None
    return Status(
        f"the builder of {wanted.stack}",
        State.CREATED,
        phase=boot.phase if boot else "",
        cause=boot.cause if boot else "",
        expires_at=expires,
        seconds_left=max(0, int((expires - live.now()).total_seconds())) if expires else None,
        price_per_hour=wanted.price_per_hour,
        zone=machine.where if machine else "",
        id=ref.id,
        phases=boot.phases if boot else (),
    )


def _seconds(seen: _Seen, live: LiveTarget) -> int | None:
    created = seen.machine.created_at if seen.machine is not None else None
    return int((live.now() - created).total_seconds()) if created is not None else None


def _alive(s: Surroundings, old: DeploymentRef | None, say: Callable[[str], None]) -> DeploymentRef | None:
    """The builder that lives. Raises when it makes another build: it is not ended unasked."""
    machine = _at_work(s, old) if old is not None else None
    if machine is None or old is None:
        return None
    if not _ours(s, old):
        raise FlexserveError(
            f"a builder is at work on another build, {old.outputs['build']}",
            way_out=f"wait for it, or end it: flexserve down -s {old.stack}",
        )
    say(f"{machine.name} in {machine.where} is at work already; watches it to its end")
    return old


def _at_work(s: Surroundings, ref: DeploymentRef) -> Machine | None:
    machine = s.builds.live(ref).find(ref)
    return None if machine is None or machine.cloud_state.lower() in STOPPED else machine


def _ours(s: Surroundings, ref: DeploymentRef) -> bool:
    """Whether it makes, or made, the build that is asked for."""
    return str(ref.outputs.get("build", s.builds.key)) == s.builds.key


def _tell_last(s: Surroundings, old: DeploymentRef, say: Callable[[str], None]) -> None:
    """What became of the one before, and that nothing of it is gone on with."""
    if not _ours(s, old):
        return  # that one was made: its bucket is what is noted
    told = s.builds.live(old).boot(old)
    last = old.outputs.get(LAST) or (told.cause if told is not None else "") or "it is gone"
    say(f"the last builder made no build ({last}); this one starts from the beginning")


def _clear(s: Surroundings, old: DeploymentRef, say: Callable[[str], None]) -> None:
    """What a builder left. Its note goes when nothing of it is there any more but what is kept."""
    live = s.builds.live(old)
    kept, left = _swept(live, old, say)
    if left:
        raise _left(old.stack, left)
    if not kept:
        s.note.remove()


def _end(s: Surroundings, ref: DeploymentRef, say: Callable[[str], None], cause: FlexserveError | None = None) -> None:
    """Take it all away. The note stays when something does, when a build of its own is kept, or to say why there is none."""
    s.note.write(ref)
    try:
        kept, left = _swept(s.builds.live(ref), ref, lambda _: None)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "interrupted twice; the builder may still be there",
            why="it turns itself off when it is done, and at its limit whatever happens",
            way_out=f"flexserve down -s {ref.stack} deletes it",
        ) from stop
    if left:
        raise _left(ref.stack, left) from cause
    if not kept and LAST not in ref.outputs:
        s.note.remove()
    say("the builder is gone")


def _swept(live: LiveTarget, ref: DeploymentRef, say: Callable[[str], None]) -> tuple[tuple[Billable, ...], tuple[Billable, ...]]:
    """What is kept and what is left. Swept again where something is: a machine writes its last report while it is taken away."""
    _, kept, left = sweep(live, ref, purge=False, say=say)
    if left:
        _, kept, left = sweep(live, ref, purge=False, say=say)
    return kept, left


def _left(stack: str, left: tuple[Billable, ...]) -> LeftBehind:
    names = ", ".join(f"{thing.kind} {thing.name} in {thing.where}" for thing in left)
    return LeftBehind(f"a builder of {stack} left {len(left)} things behind", why=names, way_out=f"flexserve down -s {stack}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """A hang-up or a polite kill ends the builder as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
