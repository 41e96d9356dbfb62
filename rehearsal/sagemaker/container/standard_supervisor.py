#!/usr/bin/python3
"""Stand-in for `standard-supervisor COMMAND …`: starts the server again when it exits, and gives up after some tries with exit 1.

Source of names and defaults: aws/model-hosting-container-standards, PROCESS_AUTO_RECOVERY (true), PROCESS_MAX_START_RETRIES (3).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def main(argv: list[str]) -> int:
    """Exit code 0 when told to stop, 1 when the server would not stay."""
    again = os.environ.get("PROCESS_AUTO_RECOVERY", "true").lower() == "true"
    tries = int(os.environ.get("PROCESS_MAX_START_RETRIES", "3")) if again else 0
    told: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def stop(number: int, _frame: object) -> None:
        told.append(number)
        for process in running:
            process.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for number in range(tries + 1):
        running[:] = [subprocess.Popen(argv)]
        code = running[0].wait()
        if told:
            return 0
        print(f"WARN exited: llm_engine (exit status {code}; not expected)", flush=True)
        if number < tries:
            time.sleep(0.1 * (number + 1))
    print("ERROR - Service entered FATAL state, exiting...", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
