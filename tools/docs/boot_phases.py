"""The boot's phases and the causes of their failures, from the rows that the machine itself uses."""

from __future__ import annotations

from startup.boot_phases import PHASES
from startup.onboard.cause import Cause
from startup.onboard.causes import ROWS
from startup.spec import PHASE_LIMITS


def page() -> str:
    """The page as Markdown."""
    return "\n".join([*_phases(), *_causes()])


def _phases() -> list[str]:
    rows = [
        f"| `{row.name}` | {row.about} | {', '.join(f'`{need}`' for need in row.needs) or '-'} | {row.skipped} | {limit} s |"
        for row, limit in ((row, PHASE_LIMITS[name]) for name, row in PHASES.items())
    ]
    return [
        "# Phases of a boot, and causes of failure",
        "",
        "Generated from `startup/boot_phases.py` and `startup/onboard/causes.py` by `python -m tools.docs`.",
        "How to read it: [the boot](../operator/boot-phases.md).",
        "",
        "| phase | does | waits for | skipped when | limit |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]


def _causes() -> list[str]:
    parts = [
        "## Causes",
        "",
        "What a failed phase reports as its cause: the name, a sentence, the way out. Words in braces are filled in. *Waits*:",
        "it may pass by itself, so the phase goes on, shows the cause while it runs, and fails with it when its limit has passed.",
        "A cause that waits for a number of tries, or at most for a setting of the stack file, ends the phase after that.",
        "",
    ]
    for title, rows in _groups().items():
        parts += [f"### {title}", "", "| cause | what is wrong | way out | waits |", "| --- | --- | --- | --- |"]
        parts += [f"| `{row.id}` | {row.about} | {row.way_out} | {_waits(row)} |" for row in rows]
        parts.append("")
    return parts


def _waits(row: Cause) -> str:
    if row.tries:
        return f"{row.tries} tries"
    return "at most `image.throttled_wait`" if row.throttled else "yes" if row.retry else "-"


def _groups() -> dict[str, list[Cause]]:
    groups: dict[str, list[Cause]] = {}
    for row in ROWS:
        groups.setdefault(", ".join(f"`{name}`" for name in row.phases) or "Any phase", []).append(row)
    return groups
