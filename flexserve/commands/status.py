"""`flexserve status`: where the stack stands, from the state, the cloud and the machine's own report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from flexserve.commands.up import limit
from flexserve.lifecycle import show
from flexserve.lifecycle.build import parts
from flexserve.lifecycle.earlier import earlier, unknown
from flexserve.lifecycle.look import look
from flexserve.lifecycle.making import document, told
from flexserve.lifecycle.parts import Parts
from flexserve.lifecycle.state import Seen, Status, describe
from flexserve.lifecycle.wait import until_serving
from flexserve.output import Output
from flexserve.project import find
from infra.targets.protocol import DeploymentRef, State
from verdict.errors import Interrupted
from verdict.exit_codes import ExitCode

_EXITS = {State.EXPIRED: ExitCode.GONE, State.RECLAIMED: ExitCode.GONE, State.FAILED: ExitCode.FAILED}


def run(stack: str, output: Output, *, wait: bool, timeout: str, boot: bool) -> ExitCode:
    """Print the status. Absent, queued, created, serving and stopped exit 0; expired and reclaimed 8; failed 1."""
    seconds = limit(timeout)
    surroundings = parts(find(), stack, output.say)
    status = waited(surroundings, output, seconds) if wait else now(surroundings, output.say)
    making = told(surroundings.making, output.say)
    more = making.rows() if making is not None else ()
    output.result(document(status.as_dict(boot=boot), making), show.page(status, output, boot=boot, more=more))
    return ExitCode.CANNOT_TELL if status.others else _EXITS.get(status.state, ExitCode.DONE)


def now(surroundings: Parts, say: Callable[[str], None]) -> Status:
    """One look. Where nothing is up, also at what is kept, as far as the cloud can be asked about it."""
    ref = surroundings.read()
    half_down = surroundings.unfinished.read() if ref is None else None
    wanted = ref or half_down
    seen = look(surroundings.live(wanted), wanted) if wanted is not None else Seen(None, datetime.now(UTC))
    if half_down is not None and seen.machine is None:
        seen = Seen(None, seen.now)
    status = describe(surroundings.stack, seen)
    return status if ref is not None or seen.machine is not None else absent(surroundings, status, half_down, say)


def absent(surroundings: Parts, status: Status, before: DeploymentRef | None, say: Callable[[str], None]) -> Status:
    """What is left of earlier deployments: of the one `before` that is noted here, and of all others that the cloud tells of."""
    found = earlier(surroundings, before, say)
    kept = [thing for thing in surroundings.live(before).inventory(before) if thing.kept] if before is not None else []
    if found is None:
        asked = before is not None
        return replace(status, kept=tuple(kept), cause="" if asked else "this state knows of none; the cloud was not asked")
    kept += [thing for life in found.over for thing in life.kept]
    cause = "; ".join(f"not this state's: {unknown(surroundings.stack, life)}" for life in found.others)
    return replace(status, kept=tuple(dict.fromkeys(kept)), cause=cause, others=found.others)


def waited(surroundings: Parts, output: Output, seconds: float) -> Status:
    """Look until it serves; the nonce is asked for, as in `up`."""
    ref = surroundings.read()
    if ref is None:
        return now(surroundings, output.say)
    try:
        progress = show.Progress(output)
        return until_serving(surroundings, surroundings.live(ref), ref, timeout_s=seconds, report=progress)[0]
    except KeyboardInterrupt as stop:
        raise Interrupted("stopped waiting; the deployment goes on as it was") from stop
