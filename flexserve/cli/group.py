"""What a group of commands is here: its order, and Ctrl-C within it."""

from __future__ import annotations

from typing import Any

import click

from verdict.errors import Interrupted

STACK = "flexserve.stack"
"""Under this name a context keeps the stack that was named, for messages."""


class Group(click.Group):
    """Lists commands as they stand here; turns a Ctrl-C that no command took into our own error (click would say nothing)."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of a deployment's life, not of the alphabet."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            stack = ctx.meta.get(STACK, "")
            way_out = f"flexserve status -s {stack} says more" if stack else ""
            raise Interrupted("interrupted before the command was done", way_out=way_out) from stop
