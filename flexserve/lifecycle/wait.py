"""Waits until the deployment serves: the machine says so, runs the wanted script, and a nonce comes back through the tunnel."""

from __future__ import annotations

from collections.abc import Callable

from flexserve.checks.nonce import Answer
from flexserve.lifecycle.look import look
from flexserve.lifecycle.parts import BootFailed, Parts
from flexserve.lifecycle.state import ENDING, GONE, Status, describe
from infra.clouds.http import NoNetwork
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

    What asking raises and waiting cannot mend ends it at once: `MissingProgram`, `BadConfig`. A network that is away is waited
    for. Whatever ends it says that the machine bills, as long as one was seen.
    """
    wait = _Wait(parts, live, ref, timeout_s, report)
    try:
        return wait.until_serving()
    except FlexserveError as error:
        down = f"flexserve down -s {parts.stack}"
        if wait.machine and not isinstance(error, Gone) and down not in error.way_out:
            error.way_out = f"{error.way_out}; the machine bills until `{down}`".lstrip("; ")
        raise


class _Wait:
    """One wait. `machine`: whether the last look found one; `trouble`: why it does not serve yet."""

    def __init__(
        self, parts: Parts, live: LiveTarget, ref: DeploymentRef, timeout_s: float, report: Callable[[Status], None]
    ) -> None:
        self._parts, self._live, self._ref, self._timeout_s, self._report = parts, live, ref, timeout_s, report
        self.machine = True  # it was created a moment ago
        self.trouble = ""

    def until_serving(self) -> tuple[Status, Answer]:
        clock = self._parts.clock
        started = clock.monotonic()
        while True:
            waited = clock.monotonic() - started
            try:
                status, answer = self._once(waited)
            except NoNetwork as error:
                if waited >= self._timeout_s:
                    raise
                self.trouble = error.what
            else:
                if answer is not None:
                    return status, answer
                if waited >= self._timeout_s:
                    raise _timed_out(self._parts.stack, status, self.trouble, self._timeout_s)
            clock.sleep(INTERVAL_S)

    def _once(self, waited: float) -> tuple[Status, Answer | None]:
        seen = look(self._live, self._ref)
        self.machine = seen.machine is not None
        status = describe(self._parts.stack, seen)
        self._report(status)
        ending = seen.machine is not None and seen.machine.cloud_state.lower() in ENDING
        _give_up(status, machine=self.machine, ending=ending)
        answer = self._answer(waited) if status.state is State.SERVING and status.current else None
        if answer is None and seen.boot is None and waited > NO_REPORT_S:
            raise TimedOut(
                f"the machine was created and has reported nothing for {words(int(waited))}",
                why="its start-up script never ran, or it cannot report",
                way_out=f"flexserve logs -s {self._parts.stack} shows its console",
            )
        return status, answer

    def _answer(self, waited: float) -> Answer | None:
        """The answer that holds the nonce; None when it did not come this time."""
        try:
            answer = self._parts.ask(self._ref)
        except (BadConfig, Gone, MissingProgram):  # no waiting mends these
            raise
        except NoAccess:
            if waited > GRANT_S:
                raise
            self.trouble = "the tunnel's grant does not hold yet"
        except FlexserveError as error:
            self.trouble = f"{error.what} {error.why}".strip()
        else:
            if answer.ok:
                return answer
            self.trouble = f"the server answered {answer.text[:80]!r}, which does not hold the nonce"
        return None


def _give_up(status: Status, *, machine: bool, ending: bool) -> None:
    """Raise when waiting cannot help."""
    if status.state in GONE:
        first = f"`flexserve down -s {status.stack}` deletes it, then " if machine and not ending else ""
        way_out = f"{first}flexserve up -s {status.stack} asks for a new one"
        raise Gone(f"the deployment is {status.state}", why=status.cause, way_out=way_out)
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
