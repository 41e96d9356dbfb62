#!/usr/bin/python3
"""Stand-in for `standard-supervisor COMMAND …` and the supervisord that it starts: their rules and their lines in the log.

A server that lived for a second counts as started and is started again whenever it ends, without limit: the container itself does
not end. One that ends sooner is tried again after 1, 2, 3 … seconds, `PROCESS_MAX_START_RETRIES` (3) times; then nothing is started
any more, and the container stays. `PROCESS_AUTO_RECOVERY=false` leaves the supervisor out.
Source: aws/model-hosting-container-standards 0.1.17, supervisor/generator.py, scripts/standard_supervisor.py; supervisord's manual.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import time

NAME = "app"
STARTED_S = 1.0  # startsecs
EXPECTED = 255  # exitcodes
RETRIES = 3


def say(level: str, text: str) -> None:
    """One line as supervisord prints it."""
    now = dt.datetime.now()
    print(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} {level} {text}", flush=True)


def how(code: int) -> str:
    """How a process ended, in supervisord's words."""
    if code < 0:
        return f"terminated by {signal.Signals(-code).name}"
    return f"exit status {code}"


class Supervisor:
    """One program. `told` is set by a signal: it is stopped, and so is this."""

    def __init__(self, argv: list[str], retries: int) -> None:
        self.argv, self.retries = argv, retries
        self.told = False
        self.process: subprocess.Popen[bytes] | None = None

    def stop(self, *_: object) -> None:
        """Pass the signal on; `run` sees the end."""
        self.told = True
        if self.process is not None:
            self.process.terminate()

    def run(self) -> int:
        """Until it is told to stop: exit code 0."""
        failures = 0
        while not self.told:
            lived, code = self.life()
            if self.told:
                break
            expected = lived and code == EXPECTED
            say("INFO" if expected else "WARN", f"exited: {NAME} ({how(code)}; {'expected' if expected else 'not expected'})")
            failures = 0 if lived else failures + 1
            if expected or failures > self.retries:
                if failures:
                    say("INFO", f"gave up: {NAME} entered FATAL state, too many start retries too quickly")
                self.idle()
            elif failures:
                time.sleep(failures)
        return 0

    def life(self) -> tuple[bool, int]:
        """Whether it lived long enough, and its exit code."""
        self.process = subprocess.Popen(self.argv)
        say("INFO", f"spawned: '{NAME}' with pid {self.process.pid}")
        try:
            return False, self.process.wait(STARTED_S)
        except subprocess.TimeoutExpired:
            say("INFO", f"success: {NAME} entered RUNNING state, process has stayed up for > than 1 seconds (startsecs)")
        return True, self.process.wait()

    def idle(self) -> None:
        """Nothing runs any more, and nobody ends the container."""
        while not self.told:
            time.sleep(0.2)


def main(argv: list[str]) -> int:
    """Exit code 0 when told to stop."""
    if os.environ.get("PROCESS_AUTO_RECOVERY", "true").lower() not in ("true", "1"):
        os.execvp(argv[0], argv)
    supervisor = Supervisor(argv, int(os.environ.get("PROCESS_MAX_START_RETRIES") or RETRIES))
    signal.signal(signal.SIGTERM, supervisor.stop)
    signal.signal(signal.SIGINT, supervisor.stop)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
