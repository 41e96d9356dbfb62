"""The options that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from flexserve.cli.completion import complete_stack, complete_words
from flexserve.cli.group import STACK

Names = tuple[str, ...]

_HIGHEST_PORT = 65_535
_STACK = ("--stack", "-s")
_STACK_HELP = "The stack: stacks/Pulumi.STACK.yaml."


def _noted(context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    context.meta[STACK] = value or ""
    return value


class Port(click.ParamType):
    """A port number from `lowest` on."""

    name = "port"

    def __init__(self, lowest: int) -> None:
        self._lowest = lowest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Click's own words for a number that is none, or is out of range, name its types."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) < 6 and self._lowest <= int(text) <= _HIGHEST_PORT):
            self.fail(f"{text!r} is not a whole number from {self._lowest} to {_HIGHEST_PORT}.", param, ctx)
        return int(text)


class PortOption(click.Option):
    """A port that is None unless it is given, so that a command can tell; the server's then stands for it, and in the help."""

    def __init__(self, names: Sequence[str], *, lowest: int, **more: Any) -> None:
        super().__init__(names, type=Port(lowest), metavar="PORT", **more)
        self._lowest = lowest

    def get_help_extra(self, ctx: click.Context) -> Any:
        """`default: 8000` without brackets around it, and the range."""
        from infra.access import SERVER_PORT

        return {**super().get_help_extra(ctx), "default": str(SERVER_PORT), "range": f"{self._lowest}<=x<={_HIGHEST_PORT}"}


stack = click.option(*_STACK, required=True, metavar="STACK", help=_STACK_HELP, shell_complete=complete_stack, callback=_noted)
maybe_stack = click.option(*_STACK, metavar="STACK", help=_STACK_HELP, shell_complete=complete_stack, callback=_noted)
json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; text and progress go to stderr.")
debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
sets = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_words,
    help="Change a key of the stack file for this run.",
)
allow = click.option(
    "--allow", multiple=True, metavar="RULE", shell_complete=complete_words, help="Go past this rule, on your word."
)
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
timeout = click.option("--timeout", default="60m", metavar="TIME", help="How long to wait until it serves, e.g. 45m.")
secret_name = click.argument("name", help="The secret's name, as in the stack file.")
