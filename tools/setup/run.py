"""Runs steps: independent ones at the same time, all stopped by Ctrl-C or by the first failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from tools.setup.cache import locked
from tools.setup.disk import Disks
from tools.setup.host import Host
from tools.setup.step import Outcome, Result, Skip, Step, StepFailed, Stopped
from tools.setup.work import Work


class Reporter(Protocol):
    """Who tells the operator."""

    def started(self, step: Step, work: Work) -> None:
        """A step begins to run (it was not ready)."""

    def ended(self, step: Step, outcome: Outcome) -> None:
        """A step has ended."""

    def failed(self, outcome: Outcome, tail: Sequence[str]) -> None:
        """A step has failed; `tail` holds the last lines of its log."""

    def tick(self) -> None:
        """Called several times a second while something runs."""


def run_steps(steps: Sequence[Step], host: Host, reporter: Reporter, stop: threading.Event) -> list[Outcome]:
    """Run the steps in the order of their needs; the outcomes, in the order in which they ended.

    The first failure stops the others. KeyboardInterrupt stops all, waits until their commands are dead, and goes on.
    """
    outcomes: dict[str, Outcome] = {}
    waiting = list(steps)
    running: dict[Future[Outcome], Step] = {}
    disks = Disks()
    with ThreadPoolExecutor(max_workers=max(1, len(steps))) as pool:
        try:
            while waiting or running:
                if not stop.is_set():
                    for step in [s for s in waiting if all(n in outcomes for n in s.needs)]:
                        waiting.remove(step)
                        running[pool.submit(run_one, step, host, reporter, stop, disks)] = step
                elif not running:
                    break
                ended, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in ended:
                    step, outcome = running.pop(future), future.result()
                    outcomes[step.name] = outcome
                    reporter.ended(step, outcome)
                    if outcome.result is Result.FAILED:
                        stop.set()
                reporter.tick()
        except BaseException:
            stop.set()
            raise
    return list(outcomes.values())


def run_one(step: Step, host: Host, reporter: Reporter, stop: threading.Event, disks: Disks) -> Outcome:
    """One step: look, and run when it has to and there is room for it."""
    began = time.monotonic()
    log = host.cache / "logs" / f"{step.name}.log"
    work = Work(log=log, stop=stop, deadline=began + step.limit_s)

    def outcome(result: Result, words: str, *, ran: bool = True, error: StepFailed | None = None) -> Outcome:
        return Outcome(
            name=step.name,
            result=result,
            seconds=time.monotonic() - began,
            words=words,
            where=step.where(host),
            log=log if ran and log.exists() else None,
            way_out=error.way_out if error else "",
            exit_code=error.exit_code if error else None,
        )

    try:
        if (there := step.done(host)) is not None:
            return outcome(Result.READY, there, ran=False)
        log.parent.mkdir(parents=True, exist_ok=True)
        reporter.started(step, work)
        with locked(log.with_suffix(".lock"), stop.is_set, lambda: setattr(work, "doing", "waits for another set-up")):
            if (there := step.done(host)) is not None:
                return outcome(Result.READY, there, ran=False)
            disks.claim(step.name, step.room(host), step.takes_mb)
            log.write_text(f"# {step.about}\n", encoding="utf-8")
            work.deadline = time.monotonic() + step.limit_s
            return outcome(Result.DONE, step.run(host, work))
    except Skip as skip:
        return outcome(Result.SKIPPED, str(skip))
    except Stopped:
        return outcome(Result.STOPPED, "stopped")
    except StepFailed as error:
        failed = outcome(Result.FAILED, error.what, error=error)
    except Exception as error:  # a step's own mistake: said in one sentence, the log has the rest
        failed = outcome(Result.FAILED, f"{type(error).__name__}: {error}", error=StepFailed(str(error)))
    reporter.failed(failed, work.tail())
    return failed
