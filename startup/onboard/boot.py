"""The boot: starts each phase when what it needs is there, keeps its limit, and reports.

Its exit status: 0 serving, 1 failed, 143 told to stop.
"""

from __future__ import annotations

import hashlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from startup.onboard import causes, places, process
from startup.onboard.redact import Redactor
from startup.onboard.report import Report, tell_guest_attributes, tell_nobody

TAIL_CHARACTERS = 2400
STOPPED = 143
SECRET_FILES = (places.HUB_HEADER, places.IDENTITY_HEADER, places.AWS_SESSION, places.AWS_CURL)
TELLS = {"guest-attributes": tell_guest_attributes, "nobody": tell_nobody}  # EC2 has no such channel: SSM reads the files
HEARTBEAT = 60.0  # seconds: the state's `updated_at` is never older while the boot lives


@dataclass(frozen=True)
class Step:
    """One phase as the script declares it: `name=limit` or `name=limit:need+need`; limit in seconds."""

    name: str
    limit: int
    needs: tuple[str, ...]

    @staticmethod
    def read(word: str) -> Step:
        """Read such a word."""
        name, _, rest = word.partition("=")
        limit, _, needs = rest.partition(":")
        return Step(name, int(limit), tuple(need for need in needs.split("+") if need))


class Record:
    """What is reported of one phase; `began` is the run's start on the monotonic clock."""

    def __init__(self, report: Report, step: Step, run: str, began: float) -> None:
        self._report = report
        self._step = step
        self._run = run
        self._start = time.monotonic()
        self._at = self._start - began

    def seconds(self) -> float:
        """Since the phase began."""
        return time.monotonic() - self._start

    def keep(self, result: str, cause: str = "", tail: str = "") -> None:
        """The phase's document as it is now."""
        self._report.document(
            f"phase-{self._step.name}",
            {
                "name": self._step.name,
                "start_s": round(self._at, 3),
                "seconds": None if result == "running" else round(self.seconds(), 3),
                "result": result,
                "needs": self._step.needs,
                "cause": cause,
                "log_tail": tail,
                "limit_s": self._step.limit,
                "run": self._run,
            },
        )


class Boot:
    """One run of the script. `ends`: its state when all went well."""

    def __init__(self, script: Path, steps: Sequence[Step], report: Report, redact: Redactor, ends: str = "serving") -> None:
        self._script = script
        self._ends = ends
        self._steps = tuple(steps)
        self._report = report
        self._redact = redact
        self._sha256 = hashlib.sha256(script.read_bytes()).hexdigest()
        self._boot_id = places.BOOT_ID.read_text(encoding="ascii").strip()
        self._began = time.monotonic()
        self._started_at = int(time.time())
        self._run = f"{time.time_ns():x}"
        self._running: dict[str, Step] = {}
        self._failure = ("", "")
        self._ended: queue.Queue[tuple[Step, str]] = queue.Queue()
        self.stop = threading.Event()

    def run(self) -> int:
        """All phases. The first failure is the boot's; phases that run beside it may end, no other starts."""
        waiting, done = list(self._steps), set[str]()
        self._state("booting")
        while waiting or self._running:
            ready = [step for step in waiting if set(step.needs) <= done and not self._failure[0] and not self.stop.is_set()]
            for step in ready:
                waiting.remove(step)
                self._running[step.name] = step
                threading.Thread(target=self._phase, args=(step,), daemon=True).start()
            if not self._running:
                break
            if ready:
                self._state("booting")
            try:
                step, result = self._ended.get(timeout=HEARTBEAT)
            except queue.Empty:
                self._state("booting")
                continue
            del self._running[step.name]
            if result != "failed":
                done.add(step.name)
        return self._end()

    def _end(self) -> int:
        if self._failure[0]:
            self._state("failed")
            self._say(f"failed in phase {self._failure[0]}: {self._failure[1]}")
            return 1
        if self.stop.is_set():
            self._say("told to stop; the next run goes on from here")
            return STOPPED
        self._state(self._ends)
        self._say(f"{self._ends} after {time.monotonic() - self._began:.1f} s")
        return 0

    def _phase(self, step: Step) -> None:
        result = "failed"
        try:
            result = self._work(step)
        except Exception as error:  # whatever it is: the boot must hear of it
            self._fail(step, causes.say("failed", status=repr(error)))
        finally:
            self._ended.put((step, result))

    def _work(self, step: Step) -> str:
        """Run one phase and report it; its result."""
        cause_file = places.RUN / f"cause-{step.name}"
        warning_file = cause_file.with_name(f"{cause_file.name}.warning")
        for file in (cause_file, warning_file):
            file.unlink(missing_ok=True)
        record = Record(self._report, step, self._run, self._began)
        shown = ""

        def tick() -> None:
            nonlocal shown
            reason = self._noted(cause_file)
            if reason != shown and not self.stop.is_set():
                shown = reason
                self._say(f"phase {step.name} waits: {reason}")
                record.keep("running", reason)

        record.keep("running")
        self._say(f"phase {step.name} starts, at most {step.limit} s")
        ended = process.run(
            ["bash", str(self._script), "phase", step.name],
            {**os.environ, process.MARK: process.mark(), "FLEXSERVE_CAUSE": str(cause_file), "FLEXSERVE_LIMIT": str(step.limit)},
            step.limit,
            lambda line: self._report.line(f"{step.name}| {self._redact(line)}"),
            stop=self.stop,
            tick=tick,
        )
        if ended.status in (0, places.SKIPPED):
            result = "done" if ended.status == 0 else "skipped"
            warning = self._noted(warning_file)
            record.keep(result, warning)
            self._say(f"phase {step.name} {result} in {record.seconds():.1f} s" + (f", but {warning}" if warning else ""))
            return result
        if self.stop.is_set():
            record.keep("failed", "stopped: the boot was told to stop")
            return "failed"
        tail = self._redact("\n".join(ended.tail))[-TAIL_CHARACTERS:]
        cause = self._redact(cause_of(step, ended, self._noted(cause_file)))
        record.keep("failed", cause, tail)
        for line in [*tail.splitlines(), *(_disks() if cause.startswith("no-space") else ())]:
            self._report.line(f"flexserve: {step.name}| {line}", loud=True)
        self._say(f"phase {step.name} failed after {record.seconds():.1f} s: {cause}")
        self._fail(step, cause)
        return "failed"

    def _fail(self, step: Step, cause: str) -> None:
        if not self._failure[0]:  # the first one is the boot's
            self._failure = (step.name, cause)
            self._state("failed")

    def _noted(self, cause_file: Path) -> str:
        try:
            return self._redact(cause_file.read_text(encoding="utf-8").strip())
        except OSError:
            return ""

    def _state(self, state: str) -> None:
        phase, cause = self._failure
        if not phase:
            phase = next(
                (step.name for step in self._steps if step.name in self._running),
                self._steps[-1].name if state == self._ends else "",
            )
        self._report.document(
            "state",
            {
                "state": "failed" if self._failure[0] else state,
                "script": self._sha256,
                "phase": phase,
                "cause": cause,
                "started_at": self._started_at,
                "updated_at": int(time.time()),
                "boot_id": self._boot_id,
                "run": self._run,
            },
        )

    def _say(self, text: str) -> None:
        self._report.line(f"flexserve: {text}", loud=True)


def cause_of(step: Step, ended: process.Ended, noted: str) -> str:
    """Why a phase failed: what it said itself, else what its output shows, else its status."""
    if noted:
        return f"{noted} (gave up after {step.limit} s)" if ended.status is None else noted
    if found := causes.find(ended.tail, step.name):
        return found[1]
    if ended.status is None:
        return causes.say("time-limit", limit=step.limit)
    return f"{causes.say('failed', status=ended.status)} ({causes.last_words(ended.tail)})"


def main(tell: str, script: str, words: Sequence[str], ends: str = "serving") -> int:
    """Run the phases that the script declares, and leave no token behind. `tell`: who hears of it besides the disk."""
    redact = Redactor(SECRET_FILES)
    report = Report(places.STATE, TELLS[tell])
    if swept := process.sweep():
        report.line(f"flexserve: ended {swept} processes of a boot that was cut off", loud=True)
    _forget()
    boot = Boot(Path(script), [Step.read(word) for word in words], report, redact, ends)
    signal.signal(signal.SIGTERM, lambda *_: boot.stop.set())
    places.PID.write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        return boot.run()
    finally:
        _forget()
        places.PID.unlink(missing_ok=True)
        report.flush(10)
        settle()


def settle() -> None:
    """What dpkg installed without waiting is on the disk from here on. After the report: nobody waits for it.

    Until then an installation that lost power is not trusted (`installing` holds the boot that began it).
    """
    begun = places.STATE / "installing"
    if begun.exists() and (places.STATE / "packages").exists():
        subprocess.run(["sync", "-f", "/usr", str(places.STATE)], check=False)
        begun.unlink(missing_ok=True)


def _disks() -> list[str]:
    done = subprocess.run(
        ["df", "-h", "/", str(places.STATE)], capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return done.stdout.splitlines()


def _forget() -> None:
    for header in SECRET_FILES:
        header.unlink(missing_ok=True)
