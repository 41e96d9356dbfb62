"""Waits until the deployment serves: the machine says so, runs the wanted script, and a nonce comes back through the tunnel."""

from __future__ import annotations

from collections.abc import Callable

from flexserve.checks.nonce import Answer
from flexserve.lifecycle.look import look
from flexserve.lifecycle.parts import BootFailed, Parts
from flexserve.lifecycle.state import ENDING, GONE, Status, describe
from infra.duration import words
from infra.targets.protocol import DeploymentRef, LiveTarget, State
from verdict.errors import BadConfig, FlexserveError, Gone, MissingProgram, NoAccess, TimedOut

INTERVAL_S = 2.0
NO_REPORT_S = 600.0  # a machine that has not reported by then never ran its script (guest agent, metadata, egress)
GRANT_S = 420.0  # a new IAM grant holds after 2 to 7 minutes (Google's documentation)


def until_serving(
    parts: Parts,
    live: LiveTarget,
    ref: DeploymentRef,
    *,
    timeout_s: float,
    report: Callable[[Status], None],
) -> tuple[Status, Answer]:
    """The status and the answer. Raises `BootFailed`, `Gone`, `TimedOut`, `NoAccess`, `FlexserveError` for a stopped machine.

    What asking raises and waiting cannot mend ends it at once: `MissingProgram`, `BadConfig`.
    """
    started = parts.clock.monotonic()
    trouble = ""
    while True:
        seen = look(live, ref)
        status = describe(parts.stack, seen)
        report(status)
        waited = parts.clock.monotonic() - started
        ending = seen.machine is not None and seen.machine.cloud_state.lower() in ENDING
        _give_up(status, machine=seen.machine is not None, ending=ending)
        if status.state is State.SERVING and status.current:
            try:
                answer = parts.ask(ref)
            except (BadConfig, Gone, MissingProgram):  # no waiting mends these
                raise
            except NoAccess:
                if waited > GRANT_S:
                    raise
                trouble = "the tunnel's grant does not hold yet"
            except FlexserveError as error:
                trouble = f"{error.what} {error.why}".strip()
            else:
                if answer.ok:
                    return status, answer
                trouble = f"the server answered {answer.text[:80]!r}, which does not hold the nonce"
        if seen.boot is None and waited > NO_REPORT_S:
            raise TimedOut(
                f"the machine was created and has reported nothing for {words(int(waited))}",
                why="its start-up script never ran, or it cannot report",
                way_out=f"flexserve logs -s {parts.stack} shows its console",
            )
        if waited >= timeout_s:
            raise _timed_out(parts.stack, status, trouble, timeout_s)
        parts.clock.sleep(INTERVAL_S)


def _give_up(status: Status, *, machine: bool, ending: bool) -> None:
    """Raise when waiting cannot help."""
    if status.state in GONE:
        raise Gone(
            f"the deployment is {status.state}", why=status.cause, way_out=f"flexserve up -s {status.stack} asks for a new one"
        )
    if status.state is State.STOPPED and not ending:
        raise FlexserveError("the machine is stopped", why=status.cause, way_out=f"flexserve down -s {status.stack}")
    if status.state is State.ABSENT:
        raise FlexserveError(f"{status.stack} has no machine", way_out=f"flexserve up -s {status.stack}")
    if status.state is State.FAILED and not machine:
        raise FlexserveError(f"{status.stack} has no machine", why=status.cause, way_out=f"flexserve up -s {status.stack}")
    if status.state is State.FAILED and (status.current or not status.running):
        failed = next((p for p in reversed(status.phases) if p.result == "failed"), None)
        phase = failed.name if failed else status.phase
        raise BootFailed(status.stack, phase, status.cause or (failed.cause if failed else ""), failed.log_tail if failed else "")


def _timed_out(stack: str, status: Status, trouble: str, timeout_s: float) -> TimedOut:
    what = f"{stack} does not serve after {words(int(timeout_s))}; it is {status.state}"
    if status.phase:
        what += f", phase {status.phase}"
    if not status.current:
        trouble = trouble or f"it runs script {status.running[:12] or '?'}, wanted is {status.wanted[:12]}"
    return TimedOut(what, why=trouble or status.cause, way_out=f"flexserve status -s {stack} --wait goes on waiting")
