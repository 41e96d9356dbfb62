"""What was assumed of AWS, and who says so: rows of `behaviours.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

EVIDENCE = ("model", "moto", "documented", "reported", "assumed")


@dataclass(frozen=True)
class Behaviour:
    """One row."""

    where: str
    what: str
    source: str
    evidence: str


def load() -> tuple[Behaviour, ...]:
    """Read the data file. Raises ValueError for a kind of evidence that is none, KeyError for a row without a source."""
    rows = tomllib.loads(files("rehearsal.cloud.aws").joinpath("behaviours.toml").read_text())["behaviour"]
    found = tuple(Behaviour(r["where"], r["what"], r["source"], r["evidence"]) for r in rows)
    if strange := [row for row in found if row.evidence not in EVIDENCE]:
        raise ValueError(f"{strange[0].where}: evidence is one of {', '.join(EVIDENCE)}")
    return found
