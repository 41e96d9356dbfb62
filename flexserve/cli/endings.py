"""How a command line ends that went wrong: every failure becomes one of our errors, said once."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Any

from flexserve.cli.streams import nowhere
from flexserve.output import Output
from verdict.errors import FlexserveError
from verdict.exit_codes import ExitCode


def output_of(words: Sequence[str]) -> Output:
    """Where this command line's errors go. With `--exec` and `--on-stdin` stdout is somebody else's."""
    as_json, lines = "--json" in words, words[:1] == ["tunnel"]
    taken = lines and any(word.partition("=")[0] in ("--exec", "--on-stdin") for word in words)
    return Output(as_json, lines, out=sys.stderr if taken else sys.stdout)


def system(error: OSError) -> FlexserveError:
    """The system's refusal as a sentence that names the file; without one it is the output that could not be written."""
    why = error.strerror or type(error).__name__
    if error.filename is not None:
        return FlexserveError(
            f"{error.filename}: {why}", way_out="give flexserve a place where it may read and write; --debug says more"
        )
    if unwritable(error):
        nowhere(1)
        return FlexserveError("the output could not be written", why=why, way_out="send it to a place with room")
    return FlexserveError(f"the system refused: {why}", way_out="run it again with --debug and report what it prints")


def unwritable(error: OSError) -> bool:
    """Whether it is stdout that cannot be written: then no document can be either, and words on stderr have to do."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def failed(error: FlexserveError, output: Output, debug: bool) -> int:
    """Print the error, with `debug` after its traceback; its exit code."""
    if debug:
        import traceback

        from verdict.secrets import hidden

        print(hidden(traceback.format_exc()), file=sys.stderr)
    output.error(error)
    return int(error.exit_code)


def usage(error: Any) -> FlexserveError:
    """What Click found wrong with the words."""
    context = getattr(error, "ctx", None)
    return UsageError(
        error.format_message() if hasattr(error, "format_message") else str(error),
        way_out=f"{context.command_path} --help" if context else "flexserve --help",
    )


class UsageError(FlexserveError):
    """A command line that flexserve does not have."""

    exit_code = ExitCode.USAGE
    kind = "usage"
