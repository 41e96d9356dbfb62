"""The options that several commands share, each written once."""

from __future__ import annotations

import click

from flexserve.cli.completion import complete_stack, complete_words
from flexserve.cli.group import STACK

Names = tuple[str, ...]

_STACK = ("--stack", "-s")
_STACK_HELP = "The stack: stacks/Pulumi.STACK.yaml."


def _noted(context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    context.meta[STACK] = value or ""
    return value


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
