"""`flexserve` itself: the options before a command."""

from __future__ import annotations

import click

from flexserve.cli.group import Group
from flexserve.help import exit_codes
from verdict.exit_codes import ExitCode


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"flexserve {version('flexserve')}")
        ctx.exit()


def _completion(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from flexserve import completion

        click.echo(completion.install(app) if param.name == "install_completion" else completion.script(app))
        ctx.exit()


@click.group(
    name="flexserve",
    cls=Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=exit_codes(ExitCode),
    help="Puts Gemma 4 on vLLM on scarce accelerators, privately, and takes it away again.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version.")
@click.option(
    "--install-completion",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_completion,
    help="Install completion for the current shell.",
)
@click.option(
    "--show-completion",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_completion,
    help="Show completion for the current shell, to copy it or customize the installation.",
)
def app() -> None:
    """The options before a command."""
