"""What pulumi prints, reduced to what the provider decides: outcomes, error texts, counts, differences shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.providers.deviations import Deviation

DURATION = re.compile(r" \((?:\d+m)?\d+(?:\.\d+)?s\)")
PREFIX = re.compile(r"^(\s*error:\s+)sdk-v2/provider2\.go:\d+: ", re.MULTILINE)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FINAL = re.compile(
    r"^ ?(?P<sign>[-+~ ]{1,2}) +(?P<kind>gcp:\S+) (?P<name>\S+) "
    r"(?P<what>\*\*.+?\*\*|created replacement|deleted original|replaced|created|updated|deleted|refresh|delete)"
    r"(?P<diff> \[diff: .+?\])?(?:;? .*)?$"
)


@dataclass(frozen=True)
class Run:
    """One command: its words, its exit code, and what it said about resources."""

    command: str
    code: int
    outcomes: tuple[str, ...]
    errors: tuple[str, ...]
    counts: tuple[str, ...]
    shown: tuple[str, ...]


def parse(command: str, text: str, code: int) -> Run:
    """Reduce a command's output; blank lines, durations and progress marks do not count."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("@")]
    return Run(command, code, _outcomes(lines), _errors(lines), _counts(lines), _shown(lines))


def _outcomes(lines: Sequence[str]) -> tuple[str, ...]:
    found = set()
    for line in lines:
        match = FINAL.match(DURATION.sub("", line) + " ")
        if match:
            found.add(f"{match['sign'].strip()} {match['kind']} {match['name']} {match['what']}{match['diff'] or ''}")
    return tuple(sorted(found))


def _errors(lines: Sequence[str]) -> tuple[str, ...]:
    """The diagnostics of each Google resource, one text a resource."""
    texts: list[list[str]] = []
    inside = False
    for line in lines:
        if re.match(r"^  \S+ \(\S+\):$", line):
            inside = line.startswith("  gcp:")
            if inside:
                texts.append([line.strip()])
        elif not line.startswith("  "):
            inside = False
        elif inside:
            texts[-1].append(line.strip())
    return tuple(sorted(PREFIX.sub(r"\1", "\n".join(text)) for text in texts))


def _counts(lines: Sequence[str]) -> tuple[str, ...]:
    """The counts below the last `Resources:`."""
    starts = [index for index, line in enumerate(lines) if line == "Resources:"]
    counts: list[str] = []
    for line in lines[starts[-1] + 1 :] if starts else []:
        if not line.startswith("    "):
            break
        counts.append(line.strip())
    return tuple(counts)


def _shown(lines: Sequence[str]) -> tuple[str, ...]:
    """The differences of Google resources as `--diff` shows them."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if re.match(r"^ +([-+~]+ ?)gcp:\S+: \(", line):
            inside = True
        elif not line.startswith("    ") or "--outputs:--" in line:
            inside = False
        if inside:
            kept.append(UUID.sub("UUID", line.strip()))
    return tuple(kept)


def compare(step: str, recorded: Sequence[Run], ours: Sequence[Run], program_failed: bool) -> list[Deviation]:
    """What differs, run by run. With `program_failed` the recorded program's own error is not held against us."""
    if len(recorded) != len(ours):
        return [Deviation("printed", step, f"{len(ours)} commands, recorded {len(recorded)}")]
    deviations = []
    for one, other in zip(recorded, ours, strict=True):
        fields = ["outcomes", "errors", "shown"] + ([] if program_failed else ["code", "counts"])
        for field in fields:
            a, b = getattr(one, field), getattr(other, field)
            if a != b:
                deviations.append(Deviation("printed", step, f"{one.command}: {field} {b}, recorded {a}"))
    return deviations
