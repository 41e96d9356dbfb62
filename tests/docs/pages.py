"""Reads the shell blocks of a page: what an operator types, what the page shows as printed, and why something is not run here.

A fence without a language (or `sh`) holds commands, one a line. A `console` fence holds commands after `$ ` and below each what
it prints; a line `…` stands for any lines, a last line `^C` for Ctrl-C once the lines above it were printed.

A comment right above a fence says what is not run with it: `<!-- not run here: WHY -->` for all of it, or lines
`COMMAND: WHY` for those that begin with COMMAND. `<!-- on the machine -->`: the commands are for the machine's own shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(f"docs/operator/{path.name}" for path in (ROOT / "docs" / "operator").glob("*.md")))
SHELL = frozenset({"", "sh", "bash", "console"})
INTERRUPT = "^C"
PROMPT = "$ "
NOT_RUN = "not run here"
ON_MACHINE = "on the machine"

_BLOCK = re.compile(
    r"(?:^<!--(?P<comment>(?:(?!-->).)*?)-->\n)?^```(?P<language>[a-z]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Command:
    """A command, and what the page shows below it (None in a block that shows no output)."""

    page: str
    line: int
    text: str
    shown: tuple[str, ...] | None = None
    reason: str = ""  # why it is not run here
    inside: bool = False  # it is for the machine's own shell

    @property
    def words(self) -> tuple[str, ...]:
        """The command's words, without the comment behind it."""
        return tuple(shlex.split(self.text, comments=True))

    @property
    def interrupted(self) -> bool:
        """Whether the page ends it with Ctrl-C."""
        return bool(self.shown) and self.shown is not None and self.shown[-1] == INTERRUPT

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Block:
    """One fenced block. `stale`: markers that no command of the block begins with; `bare`: markers without a reason."""

    page: str
    line: int
    language: str
    commands: tuple[Command, ...] = ()
    stale: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()


def blocks(page: str, text: str) -> Iterator[Block]:
    """Every fenced block of a page, those that no shell reads without commands."""
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        language = match["language"]
        if language not in SHELL:
            yield Block(page, line, language)
            continue
        marks, inside = _marks(match["comment"] or "")
        used: set[str] = set()
        commands = []
        for at, typed, shown in _typed(match["body"].splitlines(), console=language == "console"):
            mark = next((m for m in marks if typed.startswith(m)), None)
            used |= {mark} if mark is not None else set()
            reason = marks[mark] if mark is not None else ""
            commands.append(Command(page, line + at, typed, shown, reason, inside))
        bare = tuple(mark or "the whole block" for mark, reason in marks.items() if len(reason.split()) < 3)
        yield Block(page, line, language, tuple(commands), tuple(m for m in marks if m not in used), bare)


def _marks(comment: str) -> tuple[dict[str, str], bool]:
    """What is not run and why, by how the command begins (nothing: every command); and whether the machine's shell is meant."""
    head, _, rest = comment.strip().partition("\n")
    if head.strip() == ON_MACHINE:
        return {}, True
    if not head.startswith(NOT_RUN):
        return {}, False
    marks = {"": why.strip()} if (why := head.removeprefix(NOT_RUN).lstrip(":")).strip() else {}
    for line in rest.splitlines():
        begins, _, why = line.partition(": ")
        marks[begins.strip()] = why.strip()
    return marks, False


def _typed(lines: list[str], *, console: bool) -> Iterator[tuple[int, str, tuple[str, ...] | None]]:
    """Line number in the block, command, and the lines shown below it."""
    if not console:
        yield from ((at, line.strip(), None) for at, line in enumerate(lines) if line.strip())
        return
    starts = [at for at, line in enumerate(lines) if line.startswith(PROMPT)]
    assert starts[:1] == [0], "a console block begins with `$ `"
    for at, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield at, lines[at].removeprefix(PROMPT), tuple(lines[at + 1 : end])


@dataclass
class Script:
    """The commands of all pages in the order in which a reader of all of them would type them, in one life of the stack."""

    before: list[Command] = field(default_factory=list)
    serving: list[Command] = field(default_factory=list)
    after: list[Command] = field(default_factory=list)

    @property
    def commands(self) -> list[Command]:
        """All of them."""
        return [*self.before, *self.serving, *self.after]


def script(found: list[Block], first: str, frame: str) -> Script:
    """The page `first`, then the page `frame`; every other page is read while `frame`'s stack serves: before its `down` block."""
    order = Script()
    downs = [b for b in found if b.page == frame and any(c.words[:2] == ("flexserve", "down") for c in b.commands)]
    assert downs, f"{frame} takes nothing down"
    for block in found:
        if block.page == first:
            order.before += block.commands
    for block in found:
        if block.page == frame:
            (order.after if block.line >= downs[0].line else order.before).extend(block.commands)
        elif block.page != first:
            order.serving += block.commands
    return order


def read() -> list[Block]:
    """The blocks of all pages, in order."""
    return [block for page in PAGES for block in blocks(page, (ROOT / page).read_text(encoding="utf-8"))]
