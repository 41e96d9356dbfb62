"""Compares what a page shows with what was printed: word for word, except for what no two runs have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

ANY = "…"

_VARIES = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?: UTC|Z|\+00:?00)?"), "TIME"),
    (re.compile(r"(?<=\w)\[\d+\]:"), "[PID]:"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b"), "HEX"),
    (re.compile(r"\b(?:\d+[hms])+(?= left)"), "LENGTH"),
    (re.compile(r"(?<=receipt: )(?:\d+[dhms])+"), "LENGTH"),
    (re.compile(r"\b\d+\.\d+ s\b"), "N s"),
    (re.compile(r"\$[\d.]+(?= so far)"), "$N"),
    (re.compile(r"(?<=receipt: LENGTH, )\$[\d.]+"), "$N"),
    (re.compile(r"[\d,]+ tokens, \$[\d,.]+ a million"), "N tokens, $N a million"),
    (re.compile(r" (?:done|skipped) +█+$"), " ended BAR"),  # a phase whose effect came by itself in time is skipped
    (re.compile(r'(?<="created": )\d+'), "EPOCH"),
    (re.compile(r" {2,}"), "  "),  # a column is as wide as its widest cell
)


_LEFT_OUT = ("warning: using pulumi-language-",)  # says how pulumi came onto this machine
_UNORDERED = re.compile(r"^(?:creating|deleting) | BAR$")


def lines_of(text: Sequence[str]) -> list[str]:
    """The lines to compare. Things that begin together come in no order: phases, what the engine creates and deletes."""
    lines = [same(line) for line in text if not line.startswith(_LEFT_OUT)]
    return [
        line
        for together, run in groupby(lines, lambda line: bool(_UNORDERED.search(line)))
        for line in (sorted(run) if together else run)
    ]


def same(line: str) -> str:
    """The line with everything that varies from run to run replaced by its kind."""
    for pattern, kind in _VARIES:
        line = pattern.sub(kind, line)
    return line.rstrip()


def agrees(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the page shows what was printed. `…` in the page stands for any number of lines."""
    groups: list[list[str]] = [[]]
    for line in lines_of(shown):
        if line.strip() == ANY:
            groups.append([])
        else:
            groups[-1].append(line)
    rest = lines_of(printed)
    first, *others = groups
    if rest[: len(first)] != first or (not others and len(rest) != len(first)):
        return False
    rest = rest[len(first) :]
    for group in others[:-1]:
        at = next((i for i in range(len(rest) - len(group) + 1) if rest[i : i + len(group)] == group), None)
        if at is None:
            return False
        rest = rest[at + len(group) :]
    return not others or (len(rest) >= len(others[-1]) and rest[len(rest) - len(others[-1]) :] == others[-1])


def rewritten(shown: Sequence[str], printed: Sequence[str]) -> tuple[str, ...]:
    """What the page should show: what was printed, with as many lines left out at the same end as before."""
    printed = [line for line in printed if not line.startswith(_LEFT_OUT)]
    if ANY not in map(str.strip, shown):
        return tuple(printed)
    lines = [line.strip() for line in shown]
    head, tail = lines.index(ANY), len(lines) - 1 - lines[::-1].index(ANY)
    last = len(lines) - 1 - tail
    left_out = shown[head]
    return (*printed[:head], left_out, *(printed[len(printed) - last :] if last else ()))
