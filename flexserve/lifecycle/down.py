"""`down`: destroy, then ask the cloud itself what is left, delete that by name, and count what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from flexserve.lifecycle import keeps
from flexserve.lifecycle.earlier import Earlier, earlier
from flexserve.lifecycle.look import look
from flexserve.lifecycle.money import prices
from flexserve.lifecycle.parts import Changes, EngineFailed, Parts
from flexserve.lifecycle.state import Seen, describe, lived
from infra.targets.protocol import Billable, CanHold, DeploymentRef, Life, LiveTarget
from verdict.errors import FlexserveError, Interrupted, NoAccess, TimedOut

HELD_S, LOOK_S, TRIES = 80 * 60.0, 5.0, 3


@dataclass(frozen=True)
class Receipt:
    """What the deployment cost: seconds from create to end, dollars of the parts with a known price, tokens served if counted.

    `cost_is`: empty when the dollars are exact, else `about`, `at least` or `at most`.
    """

    seconds: int | None
    cost: float | None
    parts: tuple[str, ...] = ()
    tokens: int | None = None
    cost_is: str = ""

    @property
    def usd_per_million(self) -> float | None:
        """Dollars a million tokens; None without both figures."""
        return round(self.cost / self.tokens * 1e6, 4) if self.cost is not None and self.tokens else None


@dataclass(frozen=True)
class Gone:
    """The `down` document of the contract. `first` is what the cloud deleted before the engine began, as `CanHold` wants it;
    `swept` are the things that the engine left and `down` deleted by name. `asked`: whether the cloud was asked for other
    deployments of the stack; `others` are those that go on, which this state does not know: they are not touched.
    """

    stack: str
    changes: Changes
    swept: tuple[Billable, ...]
    kept: tuple[Billable, ...]
    left_behind: tuple[Billable, ...]
    receipt: Receipt | None
    engine_error: FlexserveError | None = None
    first: tuple[Billable, ...] = ()
    asked: bool = False
    others: tuple[Life, ...] = ()
    known: bool = True

    @property
    def alone(self) -> bool:
        """Whether nothing was known here, and one that somebody else's state knows goes on."""
        return not self.known and bool(self.others)

    def as_dict(self) -> dict[str, object]:
        """The document."""
        receipt = self.receipt
        told: dict[str, object] = {}
        if receipt is not None:
            told["cost_is"] = "unknown" if receipt.cost is None else receipt.cost_is or "exact"
            told["usd_per_million"] = receipt.usd_per_million
        return {
            "stack": self.stack,
            "deleted": [
                {"by": "engine", "count": self.changes.counts.get("delete", 0)},
                *({"by": "id", **keeps.thing(b)} for b in (*self.first, *self.swept)),
            ],
            "kept": [keeps.kept(b) for b in self.kept],
            "left_behind": [keeps.thing(b) for b in self.left_behind],
            "others": [{"id": life.ref.id, "why": life.going_on} for life in self.others],
            "receipt": {**asdict(receipt), **told} if receipt else None,
        }


def down(parts: Parts, *, purge: bool, say: Callable[[str], None], tokens: Callable[[DeploymentRef], int | None]) -> Gone:
    """Everything of the stack's deployment is deleted when this returns, except what is kept on purpose or listed as left behind.

    A machine that is already gone is fine. When the engine fails, what the cloud still has is deleted by id all the same, and the
    engine's error is kept: the state may still hold entries.
    """
    try:
        ref = parts.read() or parts.unfinished.read()
        found = earlier(parts, ref, say) if purge else None
        if found is not None and found.others:
            say(f"what is kept stays: deployment {found.others[0].ref.id} of {parts.stack} goes on, and may use it")
            purge = False
        gone = _with_builder(parts, _down(parts, purge=purge, say=say, tokens=tokens), purge=purge, say=say)
        found = found or earlier(parts, ref, say)
        return replace(_with_earlier(gone, found, purge=purge, say=say), known=ref is not None)
    except KeyboardInterrupt as stop:
        what = "interrupted while deleting; some of it may still be there and bill"
        raise Interrupted(what, way_out=f"flexserve down -s {parts.stack} goes on") from stop


def _down(parts: Parts, *, purge: bool, say: Callable[[str], None], tokens: Callable[[DeploymentRef], int | None]) -> Gone:
    known = parts.read()
    ref = known or parts.unfinished.read()
    if ref is None:
        remains = _emptied(parts) if parts.known() else Changes()  # entries of a first create that never got its id
        return Gone(parts.stack, remains, (), (), (), None)
    live = parts.live(ref)
    seen = look(live, ref)
    counted = tokens(ref) if seen.machine is not None else None
    paid = receipt(parts.stack, seen, counted) if known is not None or seen.machine is not None else None  # else it was told
    try:
        parts.unfinished.write(ref)
    except OSError as error:  # a full disk must not keep a machine alive
        say(f"should this be cut off, note the id {ref.id}: it could not be kept here ({error.strerror})")
    try:
        first = let_go(parts, live, ref, say)
    except FlexserveError as error:
        say(f"{error}\n  what it needs to go stays until it is gone; so does all the rest")
        return Gone(parts.stack, Changes(), (), *standing(live, ref, purge=purge), paid)
    engine_error: FlexserveError | None = None
    changes = Changes()
    try:
        changes = _emptied(parts)
    except EngineFailed as error:
        say(f"{error.what}; what the cloud still has is deleted by id")
        engine_error = error
    swept, kept, left = sweep(live, ref, purge=purge, say=say)
    if engine_error is not None and not left:
        try:  # what stood in its way is gone: now the state can be emptied
            changes, engine_error = parts.engine().destroy(), None
        except EngineFailed as error:
            engine_error = error
    if engine_error is None and not left and not kept:  # what is kept is found again by the id, for --purge
        parts.unfinished.remove()
    return Gone(parts.stack, changes, swept, kept, left, paid, engine_error, first)


def _emptied(parts: Parts) -> Changes:
    """What the engine deleted. It takes seconds to find nothing, as in a second `down` for `--purge`."""
    return Changes() if parts.bare() else parts.engine().destroy()


def let_go(parts: Parts, live: LiveTarget, ref: DeploymentRef, say: Callable[[str], None]) -> tuple[Billable, ...]:
    """Delete a machine that the cloud takes apart with something else of the stack (a role), and wait for its end: what went.

    The engine would delete both as soon as the cloud has begun, and does not know one whose create failed. While the cloud refuses
    to delete it, that is waited for, 80 minutes at most; one that has begun to change since the look (it scales) is refused as
    well, so it is asked three times. Raises as `LiveTarget.delete` does.
    """
    if not isinstance(live, CanHold):
        return ()
    until, tries = parts.clock.monotonic() + HELD_S, TRIES
    while True:
        _let_be(parts, live, ref, until, say)
        holder = live.holder(ref)
        if holder is None:
            return ()
        say(f"deletes {holder.kind} {holder.name} in {holder.where}; the rest goes once the cloud is done with it")
        try:
            live.delete(holder)
        except (NoAccess, TimedOut):
            raise
        except FlexserveError as error:
            tries -= 1
            if not tries:
                raise
            say(f"{error.what}{f' ({error.why})' if error.why else ''}; asks again")
            parts.clock.sleep(LOOK_S)
        else:
            return (holder,)


def _let_be(parts: Parts, live: CanHold, ref: DeploymentRef, until: float, say: Callable[[str], None]) -> None:
    """Wait while the cloud makes or changes it."""
    told = ""
    while (held := live.held(ref)) and parts.clock.monotonic() < until:
        if held != told:
            told = held
            say(f"{held}: the cloud deletes it only after that; waits")
        parts.clock.sleep(LOOK_S)


def _with_builder(parts: Parts, gone: Gone, *, purge: bool, say: Callable[[str], None]) -> Gone:
    """Also what a `build` of this stack left: its machine may still be at work."""
    try:
        found = parts.builder()
    except NoAccess as error:  # nobody noted one; the receipt is not lost over it
        say(f"whether a builder is left cannot be seen: {error.what}")
        return gone
    if found is None:
        return gone
    swept, kept, left = sweep(found.live, found.ref, purge=purge, say=say, who="the builder")
    if not kept and not left:
        found.note.remove()
    known = {(thing.kind, thing.name) for thing in (*gone.kept, *gone.left_behind)}
    more = tuple(thing for thing in kept if (thing.kind, thing.name) not in known)
    return replace(gone, swept=(*gone.swept, *swept), kept=(*gone.kept, *more), left_behind=(*gone.left_behind, *left))


def _with_earlier(gone: Gone, found: Earlier | None, *, purge: bool, say: Callable[[str], None]) -> Gone:
    """Also what earlier deployments of the stack left on purpose, from whatever checkout: listed, and deleted by `purge`."""
    if found is None:
        return gone
    swept: list[Billable] = []
    kept: dict[tuple[str, str], Billable] = {(b.kind, b.name): b for b in gone.kept}
    left = list(gone.left_behind)
    for life in found.over:
        if purge:
            more, _, stuck = sweep(found.live, life.ref, purge=True, say=say, who=f"deployment {life.ref.id}")
            swept += more
            left += stuck
        else:
            kept |= {(b.kind, b.name): b for b in life.kept}
    everything, remains = (*gone.swept, *swept), tuple(kept.values())
    return replace(gone, swept=everything, kept=remains, left_behind=tuple(left), asked=True, others=found.others)


def sweep(
    live: LiveTarget, ref: DeploymentRef, *, purge: bool, say: Callable[[str], None], who: str = "the engine"
) -> tuple[tuple[Billable, ...], tuple[Billable, ...], tuple[Billable, ...]]:
    """Delete by id what still bills: (deleted, kept on purpose, left behind). A delete that fails is left behind, not raised."""
    swept = []
    for thing in live.inventory(ref):
        if thing.kept and not purge:
            continue
        why = "kept until now, and --purge is given" if thing.kept else f"still there after {who}"
        say(f"deletes {thing.kind} {thing.name} in {thing.where}: {why}")
        try:
            live.delete(thing)
        except FlexserveError as error:
            say(f"  {error.what}")
            continue
        swept.append(thing)
    kept, left = standing(live, ref, purge=purge)
    return tuple(b for b in swept if b not in left), kept, left


def standing(live: LiveTarget, ref: DeploymentRef, *, purge: bool) -> tuple[tuple[Billable, ...], tuple[Billable, ...]]:
    """What the cloud has of it now: (kept on purpose, left behind)."""
    there: Sequence[Billable] = live.inventory(ref)
    kept = tuple(b for b in there if b.kept and not purge)
    return kept, tuple(b for b in there if b not in kept)


def receipt(stack: str, seen: Seen, tokens: int | None) -> Receipt | None:
    """From create to now, or to the window's end. None where no machine was ever made."""
    outputs = seen.ref.outputs if seen.ref else {}
    status, life = describe(stack, seen), lived(seen)
    if life is None and status.cost_so_far is None:
        return None
    unknown = outputs.get("price_unknown")
    missing = tuple(f"{name}: price unknown, not counted" for name in unknown) if isinstance(unknown, list) else ()
    rates = [f"{period.per_hour} dollars an hour" for period in prices(outputs) if period.per_hour is not None]
    hourly = (", then ".join(rates),) if rates else ()
    return Receipt(round(life) if life is not None else None, status.cost_so_far, (*hourly, *missing), tokens, status.cost_is)
