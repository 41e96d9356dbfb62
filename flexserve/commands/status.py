"""`flexserve status`: where the stack stands, from the state, the cloud and the machine's own report."""

from __future__ import annotations

from datetime import UTC, datetime

from flexserve.commands.up import limit
from flexserve.lifecycle import show
from flexserve.lifecycle.build import parts
from flexserve.lifecycle.look import look
from flexserve.lifecycle.making import document, told
from flexserve.lifecycle.parts import Parts
from flexserve.lifecycle.state import Seen, Status, describe
from flexserve.lifecycle.wait import until_serving
from flexserve.output import Output
from flexserve.project import find
from infra.targets.protocol import State
from verdict.errors import Interrupted
from verdict.exit_codes import ExitCode

_EXITS = {State.EXPIRED: ExitCode.GONE, State.RECLAIMED: ExitCode.GONE, State.FAILED: ExitCode.FAILED}


def run(stack: str, output: Output, *, wait: bool, timeout: str, boot: bool) -> ExitCode:
    """Print the status. Absent, queued, created, serving and stopped exit 0; expired and reclaimed 8; failed 1."""
    seconds = limit(timeout)
    surroundings = parts(find(), stack, output.say)
    status = waited(surroundings, output, seconds) if wait else now(surroundings)
    making = told(surroundings.making, output.say)
    more = making.rows() if making is not None else ()
    output.result(document(status.as_dict(boot=boot), making), show.page(status, output, boot=boot, more=more))
    return _EXITS.get(status.state, ExitCode.DONE)


def now(surroundings: Parts) -> Status:
    """One look."""
    ref = surroundings.read()
    half_down = surroundings.unfinished.read() if ref is None else None
    wanted = ref or half_down
    seen = look(surroundings.live(wanted), wanted) if wanted is not None else Seen(None, datetime.now(UTC))
    if half_down is not None and seen.machine is None:
        seen = Seen(None, seen.now)
    return describe(surroundings.stack, seen)


def waited(surroundings: Parts, output: Output, seconds: float) -> Status:
    """Look until it serves; the nonce is asked for, as in `up`."""
    ref = surroundings.read()
    if ref is None:
        return now(surroundings)
    try:
        progress = show.Progress(output)
        return until_serving(surroundings, surroundings.live(ref), ref, timeout_s=seconds, report=progress)[0]
    except KeyboardInterrupt as stop:
        raise Interrupted("stopped waiting; the deployment goes on as it was") from stop
