"""The recorded session of the real provider, read into the forms that the comparisons use."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.providers.printed import Run, parse
from tests.providers.requests import Request, normal

HERE = Path(__file__).parent
FOLDER = HERE / "recorded"


@dataclass(frozen=True)
class Step:
    """One row of steps.toml."""

    name: str
    stack: str
    run: list[str]
    what: str = "vm"
    word: str = ""
    zone: str = ""
    over: dict[str, Any] = field(default_factory=dict)
    do: list[dict[str, Any]] = field(default_factory=list)
    state: bool = False
    only: str = ""  # "printed": compare that alone; "nothing": only a step on the way
    program_failed: bool = False  # the recorded program ended with an error of its own, after the resources


@cache
def steps() -> list[Step]:
    """The session's steps, in order."""
    with (HERE / "steps.toml").open("rb") as file:
        return [Step(**row) for row in tomllib.load(file)["step"]]


@cache
def raw_requests() -> list[dict[str, Any]]:
    """The recorded requests with their bodies written out. What the recorder sent by hand (no `alt`) is left out."""
    bodies: dict[tuple[str, str, str], Any] = {}
    entries = []
    for line in (FOLDER / "gcp-requests.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "alt=" not in entry["query"]:
            continue
        if "body_as_in" in entry:
            entry["body"] = bodies[entry["body_as_in"], entry["method"], entry["path"]]
        if "body" in entry:
            bodies[entry["step"], entry["method"], entry["path"]] = entry["body"]
        entries.append(entry)
    return entries


def requests_of(step: str) -> list[Request]:
    """A step's requests in normal form."""
    return [
        normal(entry["method"], entry["path"], entry["query"], entry.get("body"))
        for entry in raw_requests()
        if entry["step"] == step
    ]


@cache
def printed() -> dict[str, list[Run]]:
    """What pulumi printed in each step, one run after the other."""
    sections: dict[str, list[Run]] = {}
    for name, text in _sections((FOLDER / "gcp-errors.txt").read_text(encoding="utf-8")):
        commands = re.split(r"^\$ pulumi ", text, flags=re.MULTILINE)[1:]
        sections.setdefault(name, []).extend(_run(command) for command in commands)
    return sections


def _sections(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^=== (\S+)$", text, flags=re.MULTILINE)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def _run(text: str) -> Run:
    body, _, rest = text.partition("\n[rc=")
    command, _, output = body.partition("\n")
    return parse(command.split(" ", 1)[1], output, int(re.match(r"-?\d+", rest)[0]))  # type: ignore[index]


@cache
def changes() -> list[dict[str, str]]:
    """The recorded table of changes: change, op, replaceReasons, detailedDiff."""
    with (FOLDER / "gcp-instance-diffs.tsv").open(encoding="utf-8", newline="") as file:
        return [{key: value or "" for key, value in row.items()} for row in csv.DictReader(file, delimiter="\t")]


@cache
def instance() -> dict[str, Any]:
    """The recorded state of the instance after step 31."""
    value: dict[str, Any] = json.loads((FOLDER / "gcp-instance-state.json").read_text(encoding="utf-8"))
    return value


@cache
def other_states() -> dict[str, dict[str, Any]]:
    """The recorded states of all other resources, by type; those of the managed instance group left out."""
    lines = (FOLDER / "gcp-other-states.jsonl").read_text(encoding="utf-8").splitlines()
    states = {entry["type"]: entry for entry in map(json.loads, lines)}
    group = ("instanceTemplate", "instanceGroupManager", "resizeRequest")
    return {kind: entry for kind, entry in states.items() if not any(part in kind for part in group)}
