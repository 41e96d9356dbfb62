"""What a shell completes for an option: stack names, and the words of the code's own tables."""

from __future__ import annotations

import re
from typing import Any

import click

from verdict.errors import FlexserveError


def stacks(incomplete: str) -> list[str]:
    """Stack names for shell completion; none outside a project."""
    from flexserve.project import find

    try:
        return [name for name in find().stacks if name.startswith(incomplete)]
    except FlexserveError:
        return []


def complete_stack(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Of `--stack` and `rehearse`'s argument."""
    return list(stacks(incomplete))


def complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """The words of `--allow`, `--fault` and `--set`, from the list that is made of the code's own tables."""
    from flexserve import completion

    return completion.words(str(param.opts[0]).strip("-"), incomplete, kind_of(str(ctx.params.get("stack") or "")))


def kind_of(stack: str) -> str:
    """The kind of a stack's target, as its file has it; empty where it cannot be seen at a glance."""
    from flexserve.project import find

    try:
        text = (find().root / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    except (FlexserveError, OSError, ValueError):
        return ""
    found = re.search(r"^\s+kind:\s*(\w+)", text, re.MULTILINE)
    return found[1] if found else ""
