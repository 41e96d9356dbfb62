"""`flexserve secret`: the Hub token in the cloud's store."""

from __future__ import annotations

import click

from flexserve.cli.group import Group
from flexserve.cli.options import Names, allow, debug, json, secret_name, stack
from flexserve.help import command_help
from flexserve.output import Output


@click.group("secret", cls=Group, no_args_is_help=True)
def secret() -> None:
    """The Hub token in the cloud's secret store."""


@secret.command(**command_help("secret put"))
@secret_name
@stack
@allow
@json
@debug
def put(name: str, stack: str, allow: Names, as_json: bool) -> int:
    """Store a value by prompt or stdin.

    It is asked for without echo, or read from stdin when that is not a terminal. It is never an argument.
    """
    from flexserve.commands import secret as command

    return command.put(name, stack, Output(as_json), allow)


@secret.command(**command_help("secret check"))
@secret_name
@stack
@allow
@json
@debug
def check(name: str, stack: str, allow: Names, as_json: bool) -> int:
    """Whether it exists, is enabled, can be read by the machine.

    The value is never read and never printed.
    """
    from flexserve.commands import secret as command

    return command.check(name, stack, Output(as_json), allow)
