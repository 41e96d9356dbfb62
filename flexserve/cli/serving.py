"""Commands about what runs: where it stands, what it says, and the way to it."""

from __future__ import annotations

import click

from flexserve.cli.options import PortOption, debug, json, maybe_stack, stack, timeout
from flexserve.help import command_help
from flexserve.output import Output


@click.command(**command_help("status"))
@stack
@click.option("--wait", is_flag=True, help="Wait until it serves.")
@timeout
@click.option("--boot", is_flag=True, help="Add the boot's timeline.")
@json
@debug
def status(stack: str, wait: bool, timeout: str, boot: bool, as_json: bool) -> int:
    """State, phase, time left, money so far.

    Times are the cloud's own. An expired or reclaimed deployment exits 8, a failed boot 1, everything else 0.
    """
    from flexserve.commands import status as command

    return command.run(stack, Output(as_json), wait=wait, timeout=timeout, boot=boot)


@click.command(**command_help("logs"))
@stack
@click.option("--follow", "-f", is_flag=True, help="Go on until the machine is gone or Ctrl-C.")
@json
@debug
def logs(stack: str, follow: bool, as_json: bool) -> int:
    """Boot and server log of the machine."""
    from flexserve.commands import logs as command

    return command.run(stack, Output(as_json), follow=follow)


@click.command(**command_help("tunnel"))
@stack
@click.option("--port", cls=PortOption, lowest=0, help="Local port; 0 takes a free one.")
@click.option("--exec", "exec_", metavar="CMD", help="Run CMD with OPENAI_BASE_URL set, then end.")
@click.option("--on-stdin", is_flag=True, help="One connection over stdin and stdout, for ssh's ProxyCommand (IAP only).")
@click.option("--remote-port", cls=PortOption, lowest=1, help="With --on-stdin: the machine's port, 22 for ssh.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON, one a line; on stderr with --exec and --on-stdin.")
@debug
def tunnel(stack: str, port: int | None, exec_: str | None, on_stdin: bool, remote_port: int | None, as_json: bool) -> int:
    """Serve the machine's OpenAI-compatible API on localhost."""
    from flexserve.commands import tunnel as command

    return command.run(stack, Output(as_json), port=port, exec_=exec_, on_stdin=on_stdin, remote_port=remote_port)


@click.command(**command_help("smoke"))
@maybe_stack
@click.option("--url", metavar="URL", help="A server to ask directly, e.g. http://localhost:8000.")
@json
@debug
def smoke(stack: str | None, url: str | None, as_json: bool) -> int:
    """What works: pass, unsupported or fail each."""
    from flexserve.commands import smoke as command

    return command.run(stack, url, Output(as_json))
