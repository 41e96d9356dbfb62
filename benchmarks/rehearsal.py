"""`python -m benchmarks.rehearsal [--stack g5g-spot] [--json]`: how long a warm rehearsal takes, and the script's own time in it.

Budgets on an idle machine. `tpu-v6e`: 90 s for the rehearsal on a booted machine; 8 s for the boot script's own time in a first
boot, 3 s in the second boot of a healthy machine. `g5g-spot`: 120 s for the rehearsal, in which the build is made; 10 s for the own
time of a boot that takes a kept wheel; 1 s each to apply the Turing patch to a published vLLM and to check it. Own time is measured
in a rehearsal whose stand-ins hold nothing. The load and a calibration run (`python -c pass`) stand beside each figure. All figures
are of a local machine with stand-ins, not of a cloud.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rehearsal.run import Rehearsal
from rehearsal.targets.ec2_spot import Ec2SpotStage
from rehearsal.targets.gce_flex import GceFlexStage
from startup.turing import fetch

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = {
    "tpu-v6e": {"rehearsal_s": 90.0, "first_boot_own_s": 8.0, "second_boot_own_s": 3.0},
    "g5g-spot": {"rehearsal_s": 120.0, "kept_wheel_boot_own_s": 10.0, "patch_apply_s": 1.0, "patch_check_s": 1.0},
}
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


def whole(stack: str) -> float:
    """Seconds of one rehearsal, by the command that an operator types."""
    began = time.perf_counter()
    subprocess.run([str(ROOT / ".venv/bin/flexserve"), "rehearse", stack], cwd=ROOT, check=True, stdout=sys.stderr)
    return time.perf_counter() - began


def tpu_v6e() -> dict[str, float]:
    """Own seconds of the script in a first boot and in the boot after an orderly reboot, with nothing held."""
    with Rehearsal(ROOT, "tpu-v6e", say=say) as rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, GceFlexStage)
        first = _first_boot(rehearsal, stage)
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
    return {"first_boot_own_s": _last_end(first), "second_boot_own_s": _last_end(second)}


def g5g_spot() -> dict[str, float]:
    """Own seconds of a boot whose build is kept in the bucket, with nothing held; and of the patch as a command of its own."""
    with Rehearsal(ROOT, "g5g-spot", say=say) as rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, Ec2SpotStage)
        stage.keep_build()
        boot = _first_boot(rehearsal, stage)
        rehearsal.step("down", "--yes")
    return {"kept_wheel_boot_own_s": _last_end(boot), **_patch()}


def _patch() -> dict[str, float]:
    """Seconds of `apply` and of `check` on the oldest published release that is pinned, Python's start included."""
    with tempfile.TemporaryDirectory() as folder:
        tree = shutil.copytree(fetch.sources(fetch.pinned()[0]), Path(folder) / "site-packages")
        took = {}
        for command in ("apply", "check"):
            began = time.perf_counter()
            argv = [sys.executable, "-m", "startup.turing", command, "--tree", str(tree)]
            subprocess.run(argv, cwd=ROOT, check=True, stdout=sys.stderr)
            took[f"patch_{command}_s"] = time.perf_counter() - began
    return took


def _first_boot(rehearsal: Rehearsal, stage: GceFlexStage | Ec2SpotStage) -> dict:
    stage.behaviour.holds.clear()
    if rehearsal.step("up", "--yes").returncode:
        raise RuntimeError("up failed")
    return rehearsal.step("status", "--boot").document


def _last_end(status: dict) -> float:
    return max(phase["start_s"] + (phase["seconds"] or 0.0) for phase in status["phases"])


def main() -> int:
    """Measure, print, judge: 1 when a budget is broken on an idle machine, 9 when it was not idle enough to tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", choices=sorted(BUDGETS), default="tpu-v6e")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    budget, measure = BUDGETS[options.stack], {"tpu-v6e": tpu_v6e, "g5g-spot": g5g_spot}[options.stack]
    load, pace = os.getloadavg()[0], calibration()
    figures = {**measure(), "rehearsal_s": whole(options.stack)}
    over = [name for name, value in figures.items() if value > budget[name]]
    document = {
        "stack": options.stack,
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "calibration_s": round(pace, 4),
        "figures": {name: round(value, 2) for name, value in figures.items()},
        "budget": budget,
        "over": over,
    }
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        print(f"load {document['load']}, python -c pass {pace * 1000:.0f} ms; a local machine with stand-ins")
        for name, value in figures.items():
            print(f"{name:<22} {value:7.1f}   budget {budget[name]:.0f}{'   over' if name in over else ''}")
    return 0 if not over else 1 if pace <= IDLE_CALIBRATION_S else 9


if __name__ == "__main__":
    sys.exit(main())
