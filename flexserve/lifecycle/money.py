"""What a deployment has cost so far: the sum over the times in which it had one price, and how exact that is. Pure.

The program keeps when its price changed (`infra.kept.Kept.prices`) and exports it once the change was made. What an update runs
beside the machines that serve is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from infra.targets.protocol import Machine

EXACT, ABOUT, LEAST, MOST = "", "about", "at least", "at most"


@dataclass(frozen=True)
class Period:
    """From `since`, in epoch seconds, dollars an hour of the parts with a known price; None when it is unknown."""

    since: float
    per_hour: float | None


@dataclass(frozen=True)
class Spent:
    """Dollars, None when unknown; `how`: empty when they are exact, else what they are; by which prices."""

    cost: float | None
    how: str = EXACT
    periods: tuple[Period, ...] = ()


def number(value: object) -> float | None:
    """A number of the outputs; None when it is not one."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def spent(outputs: Mapping[str, object], machine: Machine | None, started: datetime | None, end: datetime) -> Spent:
    """From the start to the end.

    A machine that is gone, or failed, ended at a time that nobody told, which may have been before. One that scales may have had
    more machines than the fewest, which the price is of; one that was updated had twice as many for a while.
    """
    periods = prices(outputs)
    if started is None or not periods:
        return Spent(None)
    over, changed = machine is None or bool(machine.dead), len(periods) > 1
    under = scales(outputs) or (machine is not None and machine.updated and not changed)
    vague = (over and under) or (changed and not under)
    how = ABOUT if vague else MOST if over else LEAST if under else EXACT
    return Spent(_sum(periods, started.timestamp(), end.timestamp()), how, periods)


def prices(outputs: Mapping[str, object]) -> tuple[Period, ...]:
    """The periods, the oldest first; one for all the time where the outputs name one price. None without any."""
    kept = outputs.get("prices")
    rows = [row for row in kept if isinstance(row, Sequence) and len(row) == 2] if isinstance(kept, list) else []
    found = tuple(Period(number(at) or 0.0, number(per_hour)) for at, per_hour in rows)
    price = number(outputs.get("price_per_hour"))
    return found or ((Period(0.0, price),) if price is not None else ())


def scales(outputs: Mapping[str, object]) -> bool:
    """Whether it may have more machines than the price is of."""
    fewest, most = (number(outputs.get(key)) for key in ("price_per_hour", "price_per_hour_most"))
    return fewest is not None and most is not None and most > fewest


def _sum(periods: Sequence[Period], start: float, end: float) -> float | None:
    changes = [period.since for period in periods[1:]]
    total = 0.0
    for period, begin, until in zip(periods, (start, *changes), (*changes, end), strict=True):
        seconds = min(until, end) - max(begin, start)
        if seconds > 0 and period.per_hour is None:
            return None
        total += max(0.0, seconds) / 3600 * (period.per_hour or 0.0)
    return round(total, 4)
