"""The command that goes through all of it on this machine."""

from __future__ import annotations

import click

from flexserve.cli.completion import complete_stack, complete_words
from flexserve.cli.options import Names, allow, debug, json, sets
from flexserve.help import command_help


@click.command(**command_help("rehearse"))
@click.argument("stack", required=False, help="The stack to rehearse.", shell_complete=complete_stack)
@click.option("--fault", multiple=True, metavar="NAME", shell_complete=complete_words, help="Break this part; may be repeated.")
@click.option("--faults", is_flag=True, help="List the faults.")
@click.option(
    "--hold",
    is_flag=False,
    flag_value="30m",
    metavar="[TIME]",
    help="Hold it up so long once it serves, for commands from a second terminal; 30m without TIME.",
)
@sets
@allow
@json
@debug
def rehearse(stack: str | None, fault: Names, faults: bool, hold: str | None, sets: Names, allow: Names, as_json: bool) -> int:
    """The whole life of a stack on this machine, no account."""
    from flexserve.commands import rehearse as command
    from flexserve.project import find

    return command.run(find().root, stack, faults=fault, list_faults=faults, sets=sets, allow=allow, hold=hold, json_out=as_json)
