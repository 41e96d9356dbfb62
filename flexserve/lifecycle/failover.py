"""One place after another, until one has the machine. The first try's foundation stays; a machine that lives is never moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from flexserve.lifecycle.classify import classify
from flexserve.lifecycle.parts import Changes, EngineFailed, Parts
from flexserve.lifecycle.state import STOPPED
from flexserve.output import dollars, table
from infra.clouds.http import NoNetwork
from infra.places import Place
from infra.targets.protocol import CanTellChances, LiveTarget
from verdict.errors import BadConfig, FlexserveError, NoCapacity, Refused

Say = Callable[[str], None]


@dataclass(frozen=True)
class Try:
    """What came of one place. `seconds` None: it was not asked, since it counts against a quota that was refused elsewhere."""

    place: str
    what: str
    why: str = ""
    seconds: float | None = None

    def as_dict(self) -> dict[str, object]:
        """An entry of the document's `tries`."""
        return {"place": self.place, "what": self.what, "why": self.why, "seconds": self.seconds}


@dataclass(frozen=True)
class Placed:
    """Where the machine is (None: where the program chose), what the engine did there, and what came of the places before."""

    changes: Changes
    place: Place | None = None
    tries: tuple[Try, ...] = ()


class AllOut(NoCapacity):
    """No place has capacity now. `bills`: what was made for the tries and bills until it is deleted."""

    def __init__(self, stack: str, tries: Sequence[Try], refused: Sequence[FlexserveError], bills: str = "") -> None:
        logs = [log for error in refused if (log := log_of(error))]
        ways = [*(error.way_out for error in refused), bills and f"{bills}: flexserve down -s {stack}"]
        super().__init__(
            f"none of the {len(tries)} places of {stack} has a machine now",
            why="; ".join(f"{t.place}: {t.what}" for t in tries),
            way_out="; ".join(dict.fromkeys(filter(None, [*ways, logs and f"the full logs are {', '.join(logs)}"]))),
        )
        self.tries = tuple(tries)

    def __str__(self) -> str:
        """With a table in place of the one long `why`."""
        return f"{self.what}\n{told(self.tries)}\n  way out: {self.way_out}"

    def as_dict(self) -> dict[str, object]:
        """The error with its tries."""
        document = super().as_dict()
        document["error"] = {**document["error"], "tries": [t.as_dict() for t in self.tries]}  # type: ignore[dict-item]
        return document


def told(tries: Sequence[Try]) -> str:
    """A line for each place: what came of it, how long it took, the cloud's own words."""
    return table([(f"  {t.place}", t.what, "" if t.seconds is None else f"{t.seconds:.1f} s", t.why) for t in tries])


def ordered(places: Sequence[Place], live: LiveTarget, say: Say) -> tuple[Place, ...]:
    """The places in the order in which to ask. Of places of one size and one way, the likelier come first where the cloud tells."""
    if len(places) < 2 or not isinstance(live, CanTellChances):
        return tuple(places)
    try:
        chances = live.chances(places)
    except FlexserveError as error:
        why = f"{error.what}{': ' if error.why else ''}{error.why}"
        say(f"where capacity is likely is not known ({why}); the places are asked in the stack file's order")
        return tuple(places)
    found = by_chance(places, chances)
    if found != tuple(places):
        scores = ", ".join(f"{p.name} {chances[p.name]}" for p in found if p.name in chances)
        say(f"the likelier places are asked first, by the cloud's own score: {scores}")
    return found


def by_chance(places: Sequence[Place], chances: Mapping[str, int]) -> tuple[Place, ...]:
    """Sizes and ways stay in the stack file's order; within one, equal scores do, and what has none comes last. Pure."""
    first: dict[tuple[str, str], int] = {}
    for index, place in enumerate(places):
        first.setdefault((place.size, place.way), index)
    return tuple(sorted(places, key=lambda p: (first[p.size, p.way], -chances.get(p.name, 0))))


def over(parts: Parts, places: Sequence[Place], say: Say) -> Placed:
    """Ask place after place. Raises `AllOut` when none has capacity; what no other place mends is raised as it is, at once.

    Without places the program chooses one: the state's, or the stack file's first.
    """
    if not places:
        return Placed(attempt(parts))
    tries: list[Try] = []
    refused: list[FlexserveError] = []
    spent: dict[str, str] = {}  # quota -> where it was refused
    for number, place in enumerate(places, 1):
        if place.quota in spent:
            tries.append(Try(place.name, f"not asked: it counts against the quota that was refused in {spent[place.quota]}"))
            continue
        if len(places) > 1:
            price = "" if place.per_hour is None else f" at {dollars(place.per_hour, '/h')}"
            say(f"asks {place.name}{price} (place {number} of {len(places)})")
        started = parts.clock.monotonic()
        try:
            return Placed(_asked(parts, place), place, tuple(tries))
        except FlexserveError as error:
            if not error.elsewhere or len(places) == 1 or _lives(parts):
                raise logged(error) from error.__cause__
            tries.append(Try(place.name, error.what, error.why, round(parts.clock.monotonic() - started, 1)))
            refused.append(error)
            say(f"  {place.name}: {error.what}")
            if error.elsewhere == "quota":
                spent[place.quota] = place.name
    if all(error.elsewhere == "quota" for error in refused):  # no want of capacity: more of it would not help
        raise logged(refused[-1]) from refused[-1].__cause__
    raise AllOut(parts.stack, tries, refused, _bills(parts)) from refused[-1]


def attempt(parts: Parts, *, rerun: bool = False) -> Changes:
    """One run of the engine, where the program chooses. Raises `NoCapacity`, `NoAccess`, `TimedOut`, … of the cloud."""
    return classified(parts, lambda: parts.engine().up(rerun=rerun))


def classified(parts: Parts, run: Callable[[], Changes]) -> Changes:
    """Run the engine; what it fails with is said in the cloud's meaning, and where the engine's own words are kept."""
    try:
        return _meant(parts, run)
    except FlexserveError as error:
        raise logged(error) from error.__cause__


def logged(error: FlexserveError) -> FlexserveError:
    """With the place of the engine's own words in its way out. What the program itself refused needs none."""
    log = log_of(error)
    if log and not isinstance(error, Refused | BadConfig | EngineFailed):
        error.way_out = f"{error.way_out}; " * bool(error.way_out) + f"the full log is {log}"
    return error


def log_of(error: FlexserveError) -> str:
    """Where the engine's own words are, of an error that was made of them."""
    return error.__cause__.log if isinstance(error.__cause__, EngineFailed) else ""


def _asked(parts: Parts, place: Place) -> Changes:
    return _meant(parts, lambda: parts.engine().up(place=place.name), place.zone)


def _meant(parts: Parts, run: Callable[[], Changes], zone: str = "") -> Changes:
    began = _now(parts)
    try:
        return run()
    except EngineFailed as error:
        ref = parts.read()
        found = classify(error, parts.live(ref), ref, zone, began)
        if found is error:
            raise
        raise found from error


def _now(parts: Parts) -> datetime | None:
    """The cloud's time; None where it does not say."""
    try:
        return parts.live(None).now()
    except FlexserveError:
        return None


def _lives(parts: Parts) -> bool:
    """Whether there is a machine of the deployment after all, or none can tell: then no other place is asked."""
    ref = parts.read()
    try:
        machine = parts.live(ref).find(ref) if ref is not None else None
    except NoNetwork:
        return True
    return machine is not None and machine.cloud_state.lower() not in STOPPED


def _bills(parts: Parts) -> str:
    """What the tries have made and left, if it bills."""
    ref = parts.read()
    if ref is None:
        return ""
    try:
        left = [thing for thing in parts.live(ref).inventory(ref) if not thing.kept and thing.price_per_hour != 0]
    except FlexserveError:
        return ""
    if not left:
        return ""
    known = sum(thing.price_per_hour or 0 for thing in left)
    return f"what was made for it stays and bills {dollars(known, '/h')} ({', '.join(f'{t.kind} {t.name}' for t in left)})"
