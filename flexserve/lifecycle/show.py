"""A deployment's state and its boot, for people: a page, and progress while one waits."""

from __future__ import annotations

from collections.abc import Sequence

from flexserve.lifecycle import keeps
from flexserve.lifecycle.money import ABOUT
from flexserve.lifecycle.state import Status
from flexserve.output import Output, dollars, table
from infra.duration import words
from infra.targets.protocol import State
from startup.phases import Phase

_COLOURS = {State.SERVING: "green", State.FAILED: "red", State.EXPIRED: "yellow", State.RECLAIMED: "yellow"}


class Progress:
    """Shows each phase once it starts and once it ends; on a terminal also a line that keeps count."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._seen: dict[str, str] = {}
        self._state: State | None = None

    def __call__(self, status: Status) -> None:
        """Take one look's status."""
        if status.state is not self._state:
            self._state = status.state
            self._output.say(f"{status.stack} is {status.state}" + (f" in {status.zone}" if status.zone else ""))
        for phase in status.phases:
            if self._seen.get(phase.name) != phase.result:
                self._seen[phase.name] = phase.result
                self._output.say(f"  {phase_line(phase)}")
        running = [p.name for p in status.phases if p.result == "running"]
        left = f", {words(status.seconds_left)} left" if status.seconds_left is not None else ""
        self._output.live(f"{status.state}: {', '.join(running) or status.phase or 'waits for the first report'}{left}")


def phase_line(phase: Phase) -> str:
    """`docker     done     41.2 s`."""
    seconds = "" if phase.seconds is None else f"{phase.seconds:.1f} s"
    held = f" ({phase.held_s:.1f} s of it held)" if phase.held_s else ""
    return f"{phase.name:<10} {phase.result:<8} {seconds}{held}{'  ' + phase.cause if phase.cause else ''}".rstrip()


def page(status: Status, output: Output, *, boot: bool = False, more: Sequence[tuple[str, str]] = ()) -> str:
    """The status for people; `more` are rows of what is beside the machine."""
    rows = [
        ("phase", status.phase),
        ("cause", status.cause),
        ("where", status.zone),
        ("id", status.id),
        ("script", _script(status)),
        ("window", _window(status)),
        ("cost", _cost(status)),
        *(("kept", keeps.line(thing)) for thing in status.kept),
        *more,
    ]
    head = f"{status.stack}: {output.style(str(status.state), _COLOURS.get(status.state, 'bold'))}"
    body = table([(f"  {name}", text) for name, text in rows if text])
    return "\n".join(part for part in (head, body, timeline(status.phases) if boot else "") if part)


def timeline(phases: tuple[Phase, ...]) -> str:
    """Each phase with its start and length; a bar shows what ran at the same time."""
    if not phases:
        return "  the boot has not reported any phase"
    end = max(p.start_s + (p.seconds or 0) for p in phases) or 1.0
    rows = []
    for phase in phases:
        at, length = int(phase.start_s / end * 40), max(1, round((phase.seconds or 0) / end * 40))
        rows.append((f"  {phase.name}", f"{phase.start_s:.1f} s", _seconds(phase), phase.result, " " * at + "█" * length))
    return table(rows)


def _seconds(phase: Phase) -> str:
    """How long it took; of one that is over, its end may not be told any more."""
    if phase.seconds is not None:
        return f"{phase.seconds:.1f} s"
    return "running" if phase.result == "running" else "not known"


def _script(status: Status) -> str:
    if not status.wanted:
        return status.running[:12]
    if status.running == status.wanted:
        return f"{status.running[:12]} (the wanted one)"
    return f"runs {status.running[:12] or 'none yet'}, wanted is {status.wanted[:12]}"


def _cost(status: Status) -> str:
    if status.cost_so_far is None:
        return ""
    rate = dollars(status.price_per_hour, "/h")
    if status.price_per_hour_most is not None:
        rate = f"{rate} to {dollars(status.price_per_hour_most, '/h')}"
    at = ", now at" if status.cost_is == ABOUT else " at"
    return f"{status.cost_is} {dollars(status.cost_so_far)} so far{at} {rate}".lstrip()


def _window(status: Status) -> str:
    if status.expires_at is None:
        return ""
    until = f"{status.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{words(status.seconds_left)} left, until {until}" if status.seconds_left else f"closed at {until}"
