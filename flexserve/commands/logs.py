"""`flexserve logs`: what the machine wrote while it booted, and the server's log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from flexserve.lifecycle.build import parts
from flexserve.lifecycle.look import look
from flexserve.lifecycle.parts import Parts
from flexserve.lifecycle.state import GONE, describe
from flexserve.lifecycle.up import reference
from flexserve.output import Output
from flexserve.project import find
from infra.targets.protocol import SHORT, DeploymentRef, LiveTarget
from verdict.errors import BadConfig, Gone, Interrupted
from verdict.exit_codes import ExitCode

INTERVAL_S = 2.0
MOST = 16 << 20  # characters in the one document of --json


def run(stack: str, output: Output, *, follow: bool) -> ExitCode:
    """Print the log; with `follow` until the machine is gone (exit 8) or Ctrl-C (130)."""
    if follow and output.as_json:
        raise BadConfig("--json prints one document, and -f has no end", way_out="leave out one of them")
    surroundings = parts(find(), stack, output.say)
    ref, live = reference(surroundings)
    if follow:
        return tail(surroundings, ref, live, output)
    if output.as_json:
        output.result(_document(stack, surroundings, ref, live, output), "")
        return ExitCode.DONE
    text = "\n"
    for text, _ in pieces(live, ref):
        if not text:
            _check_gone(surroundings, ref, live)
        output.text(text, end="")
    if not text.endswith("\n"):
        output.text("")
    return ExitCode.DONE


def pieces(live: LiveTarget, ref: DeploymentRef) -> Iterator[tuple[str, int]]:
    """The log as it is now, piece by piece, each with the offset after it; one empty piece of an empty log.

    A server that goes on writing does not keep it from ending: a short piece reached the end.
    """
    text, at = live.log(ref)
    yield text, at
    while len(text.encode()) >= SHORT:
        text, at = live.log(ref, since=at)
        if text:
            yield text, at


def _document(stack: str, surroundings: Parts, ref: DeploymentRef, live: LiveTarget, output: Output) -> dict[str, object]:
    """All of it in one document, or its newest `MOST` characters; `left_out`: how many older ones are not in it."""
    kept: deque[str] = deque()
    size = left_out = following = 0
    for text, at in pieces(live, ref):
        following = at
        kept.append(text)
        size += len(text)
        while size - len(kept[0]) >= MOST:
            size -= len(kept[0])
            left_out += len(kept.popleft())
    whole = "".join(kept)
    text = whole[-MOST:]
    left_out += len(whole) - len(text)
    if not text:
        _check_gone(surroundings, ref, live)
    if left_out:
        output.say(
            f"the first {left_out:,} characters are left out: one document holds {MOST:,}; without --json all of it is printed"
        )
    return {"stack": stack, "text": text, "next": following, "left_out": left_out}


def tail(surroundings: Parts, ref: DeploymentRef, live: LiveTarget, output: Output) -> ExitCode:
    """Print what is new, again and again."""
    at = 0
    try:
        while True:
            text, at = live.log(ref, since=at)
            if text:
                output.text(text, end="")
            else:
                _check_gone(surroundings, ref, live)
            if len(text.encode()) < SHORT:
                surroundings.clock.sleep(INTERVAL_S)
    except KeyboardInterrupt as stop:
        raise Interrupted("stopped following; the machine goes on") from stop


def _check_gone(surroundings: Parts, ref: DeploymentRef, live: LiveTarget) -> None:
    status = describe(surroundings.stack, look(live, ref))
    if status.state in GONE:
        raise Gone(f"the deployment is {status.state}, and its log went with it", why=status.cause)
