"""How far the stand-in is from the recordings, and the rows that own up to it.

Every comparison returns deviations. A deviation that no row of `differences.toml` covers is an error, and so is a row
that covers none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MOST_ROWS = 10


@dataclass(frozen=True)
class Deviation:
    """One thing that is not as recorded. `kind`: request, state, change or printed; `subject`: of what; `detail`: how."""

    kind: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}: {self.detail}"


@dataclass(frozen=True)
class Row:
    """A difference that is known. `subject` and `detail` are regular expressions that a deviation must match fully."""

    id: str
    kind: str
    subject: str
    detail: str
    why: str
    found_by: str  # the test that must find it: "engine" or "direct"

    def covers(self, deviation: Deviation) -> bool:
        """Whether this row owns up to the deviation."""
        return (
            self.kind == deviation.kind
            and re.fullmatch(self.subject, deviation.subject) is not None
            and re.fullmatch(self.detail, deviation.detail, re.DOTALL) is not None
        )


def rows() -> list[Row]:
    """All known differences."""
    with (HERE / "differences.toml").open("rb") as file:
        return [Row(**row) for row in tomllib.load(file).get("difference", [])]


def unexplained(deviations: Iterable[Deviation], known: Sequence[Row]) -> list[Deviation]:
    """Those that no row covers."""
    return [deviation for deviation in deviations if not any(row.covers(deviation) for row in known)]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Leaves by path; an empty mapping or list is a leaf."""
    if isinstance(value, Mapping) and value:
        return {k: v for key, item in value.items() for k, v in flatten(item, f"{path}.{key}" if path else key).items()}
    if isinstance(value, list) and value:
        return {k: v for index, item in enumerate(value) for k, v in flatten(item, f"{path}[{index}]").items()}
    return {path: value}


def leaf_changes(recorded: Any, ours: Any) -> list[str]:
    """What differs between two values, one text a leaf."""
    one, other = flatten(recorded), flatten(ours)
    texts = [f"{path} is missing, recorded {one[path]!r}" for path in one if path not in other]
    texts += [f"{path} is {other[path]!r}, not recorded" for path in other if path not in one]
    texts += [f"{p} is {other[p]!r}, recorded {one[p]!r}" for p in one if p in other and _differ(one[p], other[p])]
    return texts


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or bool(one != other)
