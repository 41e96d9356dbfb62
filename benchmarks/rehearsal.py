"""`python benchmarks/rehearsal.py [--json]`: how long a warm rehearsal takes, and how much of a boot is the script's own time.

Budgets on an idle machine: 90 s for the rehearsal of `tpu-v6e` on a booted machine; 8 s for the boot script's own time in a first
boot, 3 s in the second boot of a healthy machine. Own time is measured in a rehearsal whose stand-ins hold nothing. The load and a
calibration run (`python -c pass`) stand beside each figure. All figures are of a local machine with stand-ins, not of a cloud.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rehearsal.run import Rehearsal
from rehearsal.targets.gce_flex import GceFlexStage

ROOT = Path(__file__).resolve().parents[1]
STACK = "tpu-v6e"
BUDGET = {"rehearsal_s": 90.0, "first_boot_own_s": 8.0, "second_boot_own_s": 3.0}
IDLE_CALIBRATION_S = 0.05


def calibration() -> float:
    """Median seconds of starting and ending Python."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def say(line: str) -> None:
    """Progress."""
    print(line, file=sys.stderr)


def whole() -> float:
    """Seconds of one rehearsal, by the command that an operator types."""
    began = time.perf_counter()
    subprocess.run([str(ROOT / ".venv/bin/flexserve"), "rehearse", STACK], cwd=ROOT, check=True, stdout=sys.stderr)
    return time.perf_counter() - began


def boots() -> tuple[float, float]:
    """Own seconds of the script in a first boot and in the boot after an orderly reboot, with nothing held."""
    with Rehearsal(ROOT, STACK, say=say) as rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, GceFlexStage)
        stage.behaviour.holds.clear()
        if rehearsal.step("up", "--yes").returncode:
            raise RuntimeError("up failed")
        first = rehearsal.step("status", "--boot").document
        (machine,) = stage.google.machines().values()
        machine.reboot()
        deadline = time.monotonic() + 120
        while True:
            second = rehearsal.step("status", "--boot").document
            if second.get("state") == "serving" and second.get("phases") != first.get("phases"):
                break
            if time.monotonic() > deadline:
                raise RuntimeError("the machine did not serve again within 120 s")
            time.sleep(1)
        rehearsal.step("down", "--yes")
    return _last_end(first), _last_end(second)


def _last_end(status: dict) -> float:
    return max(phase["start_s"] + (phase["seconds"] or 0.0) for phase in status["phases"])


def main() -> int:
    """Measure, print, judge: 1 when a budget is broken on an idle machine, 9 when it was not idle enough to tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    load, pace = os.getloadavg()[0], calibration()
    first, second = boots()
    figures = {"rehearsal_s": whole(), "first_boot_own_s": first, "second_boot_own_s": second}
    over = [name for name, value in figures.items() if value > BUDGET[name]]
    document = {
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "calibration_s": round(pace, 4),
        "figures": {name: round(value, 2) for name, value in figures.items()},
        "budget": BUDGET,
        "over": over,
    }
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        print(f"load {document['load']}, python -c pass {pace * 1000:.0f} ms; a local machine with stand-ins")
        for name, value in figures.items():
            print(f"{name:<20} {value:7.1f}   budget {BUDGET[name]:.0f}{'   over' if name in over else ''}")
    return 0 if not over else 1 if pace <= IDLE_CALIBRATION_S else 9


if __name__ == "__main__":
    sys.exit(main())
