"""Commands that create nothing: the plan and the boot script."""

from __future__ import annotations

import click

from flexserve.cli.options import Names, allow, debug, json, sets, stack
from flexserve.help import command_help
from flexserve.output import Output


@click.command(**command_help("plan"))
@stack
@sets
@allow
@click.option("--manifest", is_flag=True, help="Print all that decides the environment, as canonical JSON.")
@json
@debug
def plan(stack: str, sets: Names, allow: Names, manifest: bool, as_json: bool) -> int:
    """Fit, flags, price all in, or a refusal. No cloud is asked."""
    from flexserve.commands import plan as command

    return command.run(stack, sets, allow, Output(as_json), manifest=manifest)


@click.command(**command_help("render"))
@stack
@sets
@allow
@click.option("--stub", is_flag=True, help="Print the stub that the cloud starts instead.")
@click.option("--live", is_flag=True, help="Take what was resolved at create from the stack's outputs.")
@json
@debug
def render(stack: str, sets: Names, allow: Names, stub: bool, live: bool, as_json: bool) -> int:
    """Print the boot script that the machine runs. Asks no cloud."""
    from flexserve.commands import render as command

    return command.run(stack, sets, allow, Output(as_json), stub=stub, live=live)
