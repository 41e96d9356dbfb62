"""Every flexserve command that a page shows is one that the command line takes: names, options, stacks, faults."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from flexserve.cli import app
from rehearsal.faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(flexserve [^`]+)`")


def commands() -> Iterator[tuple[str, str]]:
    """(page, command) of README and all pages, in blocks and in running text; `NAME`s and `…` are left to the reader."""
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]):
        text = page.read_text(encoding="utf-8")
        lines = [line.strip().removeprefix("$ ") for block in FENCE.findall(text) for line in block.splitlines()]
        for command in [*(line for line in lines if line.startswith("flexserve ")), *INLINE.findall(FENCE.sub("", text))]:
            if "…" not in command and "\n" not in command:
                yield str(page.relative_to(ROOT)), command


SHOWN = sorted(set(commands()))


def test_the_pages_show_commands():
    assert len({command.split()[1] for _, command in SHOWN}) > 6


@pytest.mark.parametrize(("page", "command"), SHOWN)
def test_a_shown_command_is_one(page, command):
    words = shlex.split(command, comments=True)[1:]
    name = words.pop(0)
    if name.startswith("-"):
        return
    found = app.commands[name]
    while hasattr(found, "commands") and words:
        found = found.commands[words.pop(0)]
    options = {o for parameter in found.params for o in (*parameter.opts, *getattr(parameter, "secondary_opts", ()))} | {
        "--help",
        "-h",
    }
    for word in words:
        if word.startswith("-") and word != "-":
            assert word.split("=")[0] in options, f"{page}: {command}: no option {word}"
    for flag, value in pairwise(words):
        if flag == "--fault" and value.islower():
            assert value in FAULTS
        if flag in ("-s", "--stack") and value.islower():
            assert (ROOT / "stacks" / f"Pulumi.{value}.yaml").is_file()


def test_every_command_that_a_message_names_exists():
    """A way out that is no command is none."""
    known = app.commands
    named = {
        (str(path.relative_to(ROOT)), word)
        for folder in ("catalog", "flexserve", "infra", "startup", "templates", "verdict")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".toml", ".j2")
        for word in re.findall(r"`flexserve ([a-z]+)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [(path, word) for path, word in named if word not in known] == []
