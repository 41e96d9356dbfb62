"""The command line: parse, call one function, print its result. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from flexserve.help import command_help, exit_codes
from flexserve.output import Output
from verdict.errors import FlexserveError, Interrupted
from verdict.exit_codes import ExitCode
from verdict.secrets import hidden

Names = tuple[str, ...]


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
            raise Interrupted("interrupted before the command was done", way_out="flexserve status -s STACK says more") from stop


def _stacks(incomplete: str) -> list[str]:
    """Stack names for shell completion; none outside a project."""
    from flexserve.project import find

    try:
        return [name for name in find().stacks if name.startswith(incomplete)]
    except FlexserveError:
        return []


def _complete_stack(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    return list(_stacks(incomplete))


def _complete_words(_ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """The words of `--allow`, `--fault` and `--set`, from the list that is made of the code's own tables."""
    from flexserve import completion

    return completion.words(str(param.opts[0]).strip("-"), incomplete)


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


_STACK = ("--stack", "-s")
_STACK_HELP = "The stack: stacks/Pulumi.STACK.yaml."
stack = click.option(*_STACK, required=True, metavar="STACK", help=_STACK_HELP, shell_complete=_complete_stack)
maybe_stack = click.option(*_STACK, metavar="STACK", help=_STACK_HELP, shell_complete=_complete_stack)
json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; text and progress go to stderr.")
debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
sets = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=_complete_words,
    help="Change a key of the stack file for this run.",
)
allow = click.option(
    "--allow", multiple=True, metavar="RULE", shell_complete=_complete_words, help="Go past this rule, on your word."
)
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
timeout = click.option("--timeout", default="60m", metavar="TIME", help="How long to wait until it serves, e.g. 45m.")
secret_name = click.argument("name", help="The secret's name, as in the stack file.")


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


@app.command(**command_help("plan"))
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


@app.command(**command_help("render"))
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


@app.command(**command_help("build"))
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


@app.command(**command_help("up"))
@stack
@yes
@allow
@click.option("--build", is_flag=True, help="Make the build first where there is none (flexserve build).")
@click.option("--wait/--no-wait", default=True, help="Wait until a chat completion comes back through the tunnel.")
@timeout
@click.option("--replace", is_flag=True, help="Consent to replacing a live machine.")
@click.option("--wait-out", is_flag=True, help="If it fails: wait until the cloud lets go of it, then delete it.")
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

    wanted = {"yes": yes, "allow": allow, "build": build, "wait": wait, "timeout": timeout, "replace": replace}
    return command.run(stack, Output(as_json), wait_out=wait_out, **wanted)  # type: ignore[arg-type]


@app.command(**command_help("status"))
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


@app.command(**command_help("logs"))
@stack
@click.option("--follow", "-f", is_flag=True, help="Go on until the machine is gone or Ctrl-C.")
@json
@debug
def logs(stack: str, follow: bool, as_json: bool) -> int:
    """Boot and server log of the machine."""
    from flexserve.commands import logs as command

    return command.run(stack, Output(as_json), follow=follow)


@app.command(**command_help("tunnel"))
@stack
@click.option("--port", type=click.IntRange(0, 65535), default=8000, metavar="PORT", help="Local port; 0 takes a free one.")
@click.option("--exec", "exec_", metavar="CMD", help="Run CMD with OPENAI_BASE_URL set, then end.")
@click.option("--on-stdin", is_flag=True, help="One connection to the server's port over stdin and stdout (IAP only).")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON, one a line.")
@debug
def tunnel(stack: str, port: int, exec_: str | None, on_stdin: bool, as_json: bool) -> int:
    """Serve the machine's OpenAI-compatible API on localhost."""
    from flexserve.commands import tunnel as command

    return command.run(stack, Output(as_json), port=port, exec_=exec_, on_stdin=on_stdin)


@app.command(**command_help("smoke"))
@maybe_stack
@click.option("--url", metavar="URL", help="A server to ask directly, e.g. http://localhost:8000.")
@json
@debug
def smoke(stack: str | None, url: str | None, as_json: bool) -> int:
    """What works: pass, unsupported or fail each."""
    from flexserve.commands import smoke as command

    return command.run(stack, url, Output(as_json))


@app.command(**command_help("down"))
@stack
@yes
@click.option("--purge", is_flag=True, help="Also delete what is kept on purpose.")
@json
@debug
def down(stack: str, yes: bool, purge: bool, as_json: bool) -> int:
    """Delete everything, list what is left, print a receipt.

    The cloud is asked afterwards: anything that carries the deployment's id and still bills is deleted by name, and if it stays,
    the command fails with 7.
    """
    from flexserve.commands import down as command

    return command.run(stack, Output(as_json), yes=yes, purge=purge)


@app.command(**command_help("rehearse"))
@click.argument("stack", required=False, help="The stack to rehearse.", shell_complete=_complete_stack)
@click.option("--fault", multiple=True, metavar="NAME", shell_complete=_complete_words, help="Break this part; may be repeated.")
@click.option("--faults", is_flag=True, help="List the faults.")
@sets
@allow
@json
@debug
def rehearse(stack: str | None, fault: Names, faults: bool, sets: Names, allow: Names, as_json: bool) -> int:
    """The whole life of a stack on this machine, no account."""
    from flexserve.commands import rehearse as command
    from flexserve.project import find

    return command.run(find().root, stack, faults=fault, list_faults=faults, sets=sets, allow=allow, json_out=as_json)


@app.group("secret", cls=Group, no_args_is_help=True)
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Prints every error, as a sentence or as JSON; a traceback only with --debug."""
    _open_streams()
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    output = Output(as_json="--json" in words, lines=words[:1] == ["tunnel"])
    debug = "--debug" in words
    try:
        code = int(app(words, prog_name="flexserve", standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except FlexserveError as error:
        return _failed(error, output, debug)
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            output.say(str(error))
            return int(ExitCode.USAGE)
        return _failed(_usage(error), output, debug)
    except (KeyboardInterrupt, click.Abort):
        return _failed(Interrupted("interrupted before the command began"), output, debug)
    except BrokenPipeError:  # the reader has gone (`| head`): nothing more to say
        _nowhere(1, 2)
        return int(ExitCode.FAILED)
    except OSError as error:
        return _failed(_system(error), Output(), debug)  # in words also with --json: it may be stdout that is full
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
    if isinstance(sys.stdout, io.TextIOWrapper):  # as Python has stderr: a character that it cannot take stops nothing
        sys.stdout.reconfigure(errors="backslashreplace")


def _nowhere(*descriptors: int) -> None:
    """What is still in the buffers goes nowhere: at its end Python would complain about it once more."""
    for descriptor in descriptors:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _system(error: OSError) -> FlexserveError:
    """The system's refusal as a sentence that names the file; without one it is the output that could not be written."""
    why = error.strerror or type(error).__name__
    if error.filename is not None:
        return FlexserveError(
            f"{error.filename}: {why}", way_out="give flexserve a place where it may read and write; --debug says more"
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        _nowhere(1)
        return FlexserveError("the output could not be written", why=why, way_out="send it to a place with room")
    return FlexserveError(f"the system refused: {why}", way_out="run it again with --debug and report what it prints")


def _failed(error: FlexserveError, output: Output, debug: bool) -> int:
    if debug:
        import traceback

        print(hidden(traceback.format_exc()), file=sys.stderr)
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
