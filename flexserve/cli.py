"""The command line: parse, call one function, print its result. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from flexserve.help import command_help, exit_codes
from flexserve.output import Output
from verdict.errors import FlexserveError, Interrupted
from verdict.exit_codes import ExitCode


class Group(typer.core.TyperGroup):
    """Turns a Ctrl-C that no command took into our own error; typer would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            way_out = "flexserve status -s STACK says what there is"
            raise Interrupted("interrupted before the command was done", way_out=way_out) from stop


app = typer.Typer(
    name="flexserve",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exit_codes(ExitCode),
    help="Puts Gemma 4 on vLLM on scarce accelerators, privately, and takes it away again.",
)
secret_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The Hub token in the cloud's secret store.")
app.add_typer(secret_app, name="secret")


def _stacks(incomplete: str) -> list[str]:
    """Stack names for shell completion; none outside a project."""
    from flexserve.project import find

    try:
        return [name for name in find().stacks if name.startswith(incomplete)]
    except FlexserveError:
        return []


_STACK = typer.Option("--stack", "-s", metavar="STACK", help="The stack: stacks/Pulumi.STACK.yaml.", autocompletion=_stacks)
Stack = Annotated[str, _STACK]
MaybeStack = Annotated[str | None, _STACK]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; text and progress go to stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the stack file for this run.")]
Allow = Annotated[list[str] | None, typer.Option("--allow", metavar="RULE", help="Go past this rule, on your word.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait until it serves, e.g. 45m.")]


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(f"flexserve {version('flexserve')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """The options before a command."""


@app.command(**command_help("plan"))
def plan(
    stack: Stack,
    sets: Sets = None,
    allow: Allow = None,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="Print all that decides the environment, as canonical JSON.")
    ] = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Fit, flags, price all in, or a refusal. No cloud is asked."""
    from flexserve.commands import plan as command

    return command.run(stack, sets or (), allow or (), Output(json), manifest=manifest)


@app.command(**command_help("render"))
def render(
    stack: Stack,
    sets: Sets = None,
    allow: Allow = None,
    stub: Annotated[bool, typer.Option("--stub", help="Print the stub that the cloud starts instead.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Take what was resolved at create from the stack's outputs.")] = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Print the boot script that the machine runs. Asks no cloud."""
    from flexserve.commands import render as command

    return command.run(stack, sets or (), allow or (), Output(json), stub=stub, live=live)


@app.command(**command_help("up"))
def up(
    stack: Stack,
    yes: Yes = False,
    allow: Allow = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until a chat completion comes back through the tunnel.")
    ] = True,
    timeout: Timeout = "60m",
    replace: Annotated[bool, typer.Option("--replace", help="Consent to replacing a live machine.")] = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Create or change the stack, wait until it serves.

    A changed setting is applied to the live machine in place; serving means that a chat completion came back through the tunnel
    with the nonce that it was asked for.
    """
    from flexserve.commands import up as command

    return command.run(stack, Output(json), yes=yes, allow=allow or (), wait=wait, timeout=timeout, replace=replace)


@app.command(**command_help("status"))
def status(
    stack: Stack,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it serves.")] = False,
    timeout: Timeout = "60m",
    boot: Annotated[bool, typer.Option("--boot", help="Add the boot's timeline.")] = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """State, phase, time left, money so far.

    Times are the cloud's own. An expired or reclaimed deployment exits 8, a failed boot 1, everything else 0.
    """
    from flexserve.commands import status as command

    return command.run(stack, Output(json), wait=wait, timeout=timeout, boot=boot)


@app.command(**command_help("logs"))
def logs(
    stack: Stack,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the machine is gone or Ctrl-C.")] = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Boot and server log of the machine."""
    from flexserve.commands import logs as command

    return command.run(stack, Output(json), follow=follow)


@app.command(**command_help("tunnel"))
def tunnel(
    stack: Stack,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Local port; 0 takes a free one.")] = 8000,
    exec_: Annotated[str | None, typer.Option("--exec", metavar="CMD", help="Run CMD with OPENAI_BASE_URL set, then end.")] = None,
    on_stdin: Annotated[
        bool, typer.Option("--on-stdin", help="One connection over stdin and stdout (for ssh's ProxyCommand).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Events as JSON, one a line.")] = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Serve the machine's OpenAI-compatible API on localhost."""
    from flexserve.commands import tunnel as command

    return command.run(stack, Output(json), port=port, exec_=exec_, on_stdin=on_stdin)


@app.command(**command_help("smoke"))
def smoke(
    stack: MaybeStack = None,
    url: Annotated[str | None, typer.Option("--url", help="A server to ask directly, e.g. http://localhost:8000.")] = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """What works: pass, unsupported or fail each."""
    from flexserve.commands import smoke as command

    return command.run(stack, url, Output(json))


@app.command(**command_help("down"))
def down(
    stack: Stack,
    yes: Yes = False,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete what is kept on purpose.")] = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Delete everything, list what is left, print a receipt.

    The cloud is asked afterwards: anything that carries the deployment's id and still bills is deleted by name, and if it stays,
    the command fails with 7.
    """
    from flexserve.commands import down as command

    return command.run(stack, Output(json), yes=yes, purge=purge)


@secret_app.command(**command_help("secret put"))
def put(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The secret's name, as in the stack file.")],
    stack: Stack,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Store a value by prompt or stdin.

    It is asked for without echo, or read from stdin when that is not a terminal. It is never an argument.
    """
    from flexserve.commands import secret as command

    return command.put(name, stack, Output(json), allow or ())


@secret_app.command(**command_help("secret check"))
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The secret's name, as in the stack file.")],
    stack: Stack,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Whether it exists, is enabled, can be read by the machine.

    The value is never read and never printed.
    """
    from flexserve.commands import secret as command

    return command.check(name, stack, Output(json), allow or ())


@app.command(**command_help("rehearse"))
def rehearse(
    stack: Annotated[str | None, typer.Argument(metavar="STACK", help="The stack to rehearse.", autocompletion=_stacks)] = None,
    fault: Annotated[list[str] | None, typer.Option("--fault", metavar="NAME", help="Break this part; may be repeated.")] = None,
    faults: Annotated[bool, typer.Option("--faults", help="List the faults.")] = False,
    sets: Sets = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """The whole life of a stack on this machine, no account."""
    from flexserve.commands import rehearse as command
    from flexserve.project import find

    return command.run(find().root, stack, faults=fault or (), list_faults=faults, sets=sets or (), json_out=json)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Prints every error, as a sentence or as JSON; a traceback only with --debug."""
    _open_streams()
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    output = Output(as_json="--json" in words)
    debug = "--debug" in words
    try:
        return int(app(words, prog_name="flexserve", standalone_mode=False) or 0)
    except FlexserveError as error:
        return _failed(error, output, debug)
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            output.say(str(error))
            return int(ExitCode.USAGE)
        return _failed(_usage(error), output, debug)
    except (KeyboardInterrupt, typer.Abort):
        return _failed(Interrupted("interrupted before the command began"), output, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.FAILED)
    except Exception as error:
        unexpected = FlexserveError(
            f"unexpected: {type(error).__name__}: {error}", way_out="run it again with --debug and report what it prints"
        )
        return _failed(unexpected, output, debug)


def _open_streams() -> None:
    """A stream that was closed before we began (`<&-`, a daemon's) reads and writes nothing; Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _failed(error: FlexserveError, output: Output, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    output.error(error)
    return int(error.exit_code)


def _usage(error: Any) -> FlexserveError:
    context = getattr(error, "ctx", None)
    return FlexserveError(
        error.format_message() if hasattr(error, "format_message") else str(error),
        way_out=f"{context.command_path} --help" if context else "flexserve --help",
        exit_code=ExitCode.USAGE,
    )


if __name__ == "__main__":
    sys.exit(main())
