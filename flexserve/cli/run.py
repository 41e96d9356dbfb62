"""The command line: parse, call one function, print its result. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from flexserve.cli import life, planning, rehearse, secret, serving
from flexserve.cli.endings import failed, output_of, system, unwritable, usage
from flexserve.cli.streams import nowhere, open_streams
from flexserve.cli.top import app
from flexserve.output import Output
from verdict.errors import FlexserveError, Interrupted
from verdict.exit_codes import ExitCode

COMMANDS = (  # in the order of a deployment's life, which is the help's
    planning.plan,
    planning.render,
    life.build,
    life.up,
    serving.status,
    serving.logs,
    serving.tunnel,
    serving.smoke,
    life.down,
    rehearse.rehearse,
    secret.secret,
)
for command in COMMANDS:
    app.add_command(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Prints every error, as a sentence or as JSON; a traceback only with --debug."""
    open_streams()
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    output = output_of(words)
    debug = "--debug" in words
    try:
        code = int(app(words, prog_name="flexserve", standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except FlexserveError as error:
        return failed(error, output, debug)
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            output.say(str(error))
            return int(ExitCode.USAGE)
        return failed(usage(error), output, debug)
    except (KeyboardInterrupt, click.Abort):
        return failed(Interrupted("interrupted before the command began"), output, debug)
    except BrokenPipeError:  # the reader has gone (`| head`): nothing more to say
        nowhere(1, 2)
        return int(ExitCode.FAILED)
    except OSError as error:
        return failed(system(error), Output() if unwritable(error) else output, debug)
    except Exception as error:
        unexpected = FlexserveError(
            f"unexpected: {type(error).__name__}: {error}", way_out="run it again with --debug and report what it prints"
        )
        return failed(unexpected, output, debug)
