"""Commands that create, change and delete."""

from __future__ import annotations

import click

from flexserve.cli.options import Names, allow, debug, json, stack, timeout, yes
from flexserve.help import command_help
from flexserve.output import Output


@click.command(**command_help("build"))
@stack
@yes
@allow
@json
@debug
def build(stack: str, yes: bool, allow: Names, as_json: bool) -> int:
    """Make what a stack serves from, once, on a machine of its own.

    A build that is there is not made again; a builder that is at work is watched to its end. The builder is gone afterwards,
    also after a failure or Ctrl-C. Stacks that serve from an image have no build.
    """
    from flexserve.commands import build as command

    return command.run(stack, Output(as_json), yes=yes, allow=allow)


@click.command(**command_help("up"))
@stack
@yes
@allow
@click.option("--build", is_flag=True, help="Make the build first where there is none (flexserve build).")
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Wait until a chat completion comes back through the tunnel; else until the engine is done: SageMaker's with InService.",
)
@timeout
@click.option("--replace", is_flag=True, help="Consent to replacing a live machine.")
@click.option("--wait-out", is_flag=True, help="If it fails: wait until the cloud lets go of what this `up` made, then delete it.")
@json
@debug
def up(
    stack: str, yes: bool, allow: Names, build: bool, wait: bool, timeout: str, replace: bool, wait_out: bool, as_json: bool
) -> int:
    """Create or change the stack, wait until it serves.

    A changed setting is applied to the live machine in place; a boot that failed runs again on it, from where it stopped. Serving
    means that a chat completion came back through the tunnel with the nonce that it was asked for.
    """
    from flexserve.commands import up as command

    return command.run(
        stack,
        Output(as_json),
        yes=yes,
        allow=allow,
        wait=wait,
        timeout=timeout,
        replace=replace,
        wait_out=wait_out,
        build=build,
    )


@click.command(**command_help("down"))
@stack
@yes
@click.option("--purge", is_flag=True, help="Also delete what is kept on purpose, of earlier deployments of the stack too.")
@json
@debug
def down(stack: str, yes: bool, purge: bool, as_json: bool) -> int:
    """Delete everything, list what is left, print a receipt.

    The cloud is asked afterwards: anything that carries the deployment's id and still bills is deleted by name, and if it stays,
    the command fails with 7.
    """
    from flexserve.commands import down as command

    return command.run(stack, Output(as_json), yes=yes, purge=purge)
