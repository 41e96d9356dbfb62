"""`up`: a machine in the first place that has one, then waiting until it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flexserve.checks.nonce import Answer
from flexserve.lifecycle.down import let_go
from flexserve.lifecycle.failover import Placed, Try, attempt, classified, ordered, over
from flexserve.lifecycle.look import look
from flexserve.lifecycle.parts import Changes, Parts
from flexserve.lifecycle.state import Seen, Status, describe
from flexserve.lifecycle.wait import INTERVAL_S, until_serving
from infra.clouds.http import NoNetwork
from infra.duration import words
from infra.places import Place
from infra.targets.protocol import CanHold, CanWatch, DeploymentRef, LiveTarget, Machine, State
from verdict.errors import FlexserveError, Interrupted, LeftBehind

READ_BACK_S = 300.0  # so long a network that is lost between the create and the first look at what it made is waited for


@dataclass(frozen=True)
class Wanted:
    """What the plan promised, to be read back: how the machine may be provisioned (in the catalog's words).

    `places`: where to ask for one, in this order; without any, the program chooses.
    """

    ways: tuple[str, ...]
    timeout_s: float
    wait: bool = True
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Served:
    """How it ended. `answer` is None when nobody waited for it. `tries`: the places that were asked before, in vain."""

    status: Status
    changes: Changes
    answer: Answer | None
    already: bool = False
    tries: tuple[Try, ...] = ()


class WrongMachine(FlexserveError):
    """The cloud made another kind of machine than was asked for."""

    kind = "wrong-machine"


def up(
    parts: Parts,
    wanted: Wanted,
    *,
    consent: Callable[[Changes | None], None],
    report: Callable[[Status], None],
    say: Callable[[str], None],
) -> Served:
    """Create or change the stack and wait. `consent` raises when the operator says no; None means that nothing exists yet."""
    _check_unfinished(parts)
    machine = _existing(parts)
    changes: Changes | None = None
    engine = parts.engine()
    hopeless = _hopeless(parts, machine) if machine is not None else ""
    if machine is not None and not hopeless:
        say(f"{machine.name} exists; looking at what would change")
        changes = classified(parts, engine.preview)
        failed = _failed_boot(parts)
        if changes.total == 0 and failed is None:
            return _finish(parts, wanted, Placed(changes), report, say, already=True)
        if failed is not None:  # that it failed then is no verdict on what is changed now, here or beside it
            nothing = "nothing changed, but " if changes.total == 0 else ""
            say(f"{nothing}the boot failed in phase {failed.phase or 'unknown'}: {failed.cause}")
            say(f"it runs again on {machine.name} and goes on where it stopped")
        consent(changes)
        return _finish(parts, wanted, _changed(parts, wanted, say, rerun=failed is not None), report, say)
    places = ordered(wanted.places, parts.live(parts.read()), say)
    if machine is not None:
        say(f"{machine.name} never served and never will: {hopeless}")
        say("it is deleted, and made anew")
    consent(None)
    if machine is not None:
        _make_way(parts, machine, say)
    return _finish(parts, wanted, over(parts, places, say), report, say)


def _changed(parts: Parts, wanted: Wanted, say: Callable[[str], None], *, rerun: bool) -> Placed:
    """Change what there is. One that was replaced, with the operator's consent, may get its successor elsewhere."""
    try:
        return Placed(attempt(parts, rerun=rerun))
    except FlexserveError as error:
        if not error.elsewhere or len(wanted.places) < 2 or _existing(parts) is not None:
            raise
        say(f"the machine is gone, as you agreed to, and its successor was refused: {error.what}")
    return over(parts, ordered(wanted.places, parts.live(parts.read()), say), say)


def _check_unfinished(parts: Parts) -> None:
    """Nothing new is created while an earlier deployment, whose `down` did not finish, may still bill unseen."""
    old, ref = parts.unfinished.read(), parts.read()
    if old is None or (ref is not None and ref.id == old.id):
        return
    left = [thing for thing in parts.live(old).inventory(old) if not thing.kept]
    if left:
        raise LeftBehind(
            f"an earlier down of {parts.stack} left {len(left)} things behind",
            why=", ".join(f"{thing.kind} {thing.name} in {thing.where}" for thing in left),
            way_out=f"flexserve down -s {parts.stack} deletes them",
        )
    parts.unfinished.remove()


def _existing(parts: Parts) -> Machine | None:
    ref = parts.read()
    return parts.live(ref).find(ref) if ref is not None else None


def _hopeless(parts: Parts, machine: Machine) -> str:
    """Why a machine that never served never will; empty for one that may. What the engine has recorded has served."""
    ref, live = reference(parts)
    if machine.dead or ref.outputs.get("expires_at") or not isinstance(live, CanHold) or not isinstance(live, CanWatch):
        return machine.dead
    found = live.hopeless(ref) if live.held(ref) else None
    return found.what if found is not None else ""


def _make_way(parts: Parts, machine: Machine, say: Callable[[str], None]) -> None:
    """Delete what is in the way of its successor. The engine, if it knows it, finds it gone."""
    ref, live = reference(parts)
    let_go(parts, live, ref, say)
    if live.find(ref) is not None:
        raise FlexserveError(f"{machine.name} is still there", way_out=f"flexserve down -s {parts.stack}, then up again")


def _failed_boot(parts: Parts) -> Status | None:
    """The status when the wanted script has ended on a live machine without serving; None when there is nothing to run again."""
    ref, live = reference(parts)
    status = describe(parts.stack, look(live, ref))
    return status if status.state is State.FAILED and status.current and status.running else None


def _finish(
    parts: Parts,
    wanted: Wanted,
    placed: Placed,
    report: Callable[[Status], None],
    say: Callable[[str], None],
    *,
    already: bool = False,
) -> Served:
    """Read back what was created and wait for it; a Ctrl-C from here on says that the machine is there."""
    last: list[Status] = []

    def seen(status: Status) -> None:
        last[:] = [status]
        report(status)

    try:
        return _read_back(parts, wanted, placed, seen, say, already=already)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "stopped waiting; the machine goes on booting and bills",
            why=_stands(last[0]) if last else "",
            way_out=f"flexserve status -s {parts.stack} --wait goes on, flexserve down -s {parts.stack} ends it",
        ) from stop


def _stands(status: Status) -> str:
    """The state as it was last seen."""
    return f"{status.stack} is {status.state}" + (f", phase {status.phase}" if status.phase else "")


def _read_back(
    parts: Parts,
    wanted: Wanted,
    placed: Placed,
    report: Callable[[Status], None],
    say: Callable[[str], None],
    *,
    already: bool,
) -> Served:
    """Read back what was created; wait for it."""
    ref = parts.read()
    if ref is None:
        raise FlexserveError("the engine ended well, but the stack has no id among its outputs", way_out="report this as a defect")
    live = parts.live(ref)
    seen = _first_look(parts, live, ref, placed.changes, say)
    if seen.machine is not None:
        check_provisioning(parts.stack, seen.machine, (placed.place.way,) if placed.place else wanted.ways, say)
    if not wanted.wait:
        return Served(describe(parts.stack, seen), placed.changes, None, already, placed.tries)
    status, answer = until_serving(parts, live, ref, timeout_s=wanted.timeout_s, report=report)
    return Served(status, placed.changes, answer, already, placed.tries)


def _first_look(parts: Parts, live: LiveTarget, ref: DeploymentRef, changes: Changes, say: Callable[[str], None]) -> Seen:
    """What the cloud says of what the engine made. A network that is away is waited for, `READ_BACK_S` at most.

    The state has all of it by now. What ends the look says so, what was made, and how to go on.
    """
    from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

    clock = parts.clock
    end = clock.monotonic() + READ_BACK_S

    def told(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if state.attempt_number == 1:
            say(f"{error}\n  what was made is recorded; asks again for at most {words(int(READ_BACK_S))}")

    retrying = Retrying(
        retry=retry_if_exception_type(NoNetwork),
        stop=lambda _state: clock.monotonic() >= end,
        wait=wait_fixed(INTERVAL_S),
        sleep=clock.sleep,
        before_sleep=told,
        reraise=True,
    )
    try:
        return retrying(look, live, ref)
    except FlexserveError as error:
        made = " in ".join(str(ref.outputs[key]) for key in ("instance", "zone") if ref.outputs.get(key))
        error.what = f"{made or parts.stack} stands ({changes.words}, id {ref.id}), but cannot be read back: {error.what}"
        goes_on = f"`flexserve up -s {parts.stack}` makes nothing twice, reads it back and waits for it"
        error.way_out = "; ".join(filter(None, [error.way_out, goes_on, f"it bills until `flexserve down -s {parts.stack}`"]))
        raise


def check_provisioning(stack: str, machine: Machine, ways: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Fail loudly when the cloud gave another kind of machine than the plan's price is for.

    An older provider drops FLEX_START in silence, and the machine bills at the standard rate without an end
    (terraform-provider-google issue 24172).
    """
    wanted = " or ".join(ways)
    if not machine.provisioning:
        say(f"warning: the cloud does not say how {machine.name} was provisioned; {wanted} was asked for")
        return
    if machine.provisioning.lower().replace("-", "_") not in ways:
        raise WrongMachine(
            f"{machine.name} is {machine.provisioning}, not {wanted}: it bills at another price than planned, maybe without an end",
            why="the provider that made it does not know this kind of provisioning",
            way_out=f"flexserve down -s {stack} at once, then `make setup` for the pinned provider",
        )


def reference(parts: Parts) -> tuple[DeploymentRef, LiveTarget]:
    """The deployment that the state knows. Raises when there is none."""
    ref = parts.read()
    if ref is None:
        raise FlexserveError(f"{parts.stack} is not up", way_out=f"flexserve up -s {parts.stack}")
    return ref, parts.live(ref)
