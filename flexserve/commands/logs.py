"""`flexserve logs`: what the machine wrote while it booted, and the server's log."""

from __future__ import annotations

from flexserve.lifecycle.build import parts
from flexserve.lifecycle.look import look
from flexserve.lifecycle.parts import Parts
from flexserve.lifecycle.state import GONE, describe
from flexserve.lifecycle.up import reference
from flexserve.output import Output
from flexserve.project import find
from infra.targets.protocol import DeploymentRef, LiveTarget
from verdict.errors import BadConfig, Gone, Interrupted
from verdict.exit_codes import ExitCode

INTERVAL_S = 2.0


def run(stack: str, output: Output, *, follow: bool) -> ExitCode:
    """Print the log; with `follow` until the machine is gone (exit 8) or Ctrl-C (130)."""
    if follow and output.as_json:
        raise BadConfig("--json prints one document, and -f has no end", way_out="leave out one of them")
    surroundings = parts(find(), stack, output.say)
    ref, live = reference(surroundings)
    if follow:
        return tail(surroundings, ref, live, output)
    text, following = live.log(ref)
    if not text:
        _check_gone(surroundings, ref, live)
    output.result({"stack": stack, "text": text, "next": following}, text.rstrip("\n"))
    return ExitCode.DONE


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
            surroundings.clock.sleep(INTERVAL_S)
    except KeyboardInterrupt as stop:
        raise Interrupted("stopped following; the machine goes on") from stop


def _check_gone(surroundings: Parts, ref: DeploymentRef, live: LiveTarget) -> None:
    status = describe(surroundings.stack, look(live, ref))
    if status.state in GONE:
        raise Gone(f"the deployment is {status.state}, and its log went with it", why=status.cause)
