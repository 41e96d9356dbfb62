"""`python benchmarks/cli.py [--json]`: what a command costs before it does anything, beside the machine's load.

Budgets: 0.4 s and 60 MB for `flexserve --help`, `plan`, `render` on an idle machine. Each figure is the median of several
runs; a calibration run (`python -c pass`) and the load stand beside it, since on a busy machine seconds say little. Processor
seconds are less disturbed. Exit code 1 when a budget is broken and the machine was idle enough to tell, 9 when it was not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS, MEGABYTES = 0.4, 60.0
IDLE_CALIBRATION_S = 0.05  # an idle core starts and ends Python in less
STACK = ["-s", "tpu-v6e", "--set", "target.project=acme-1", "--set", 'access.members=["user:ops@acme.test"]']
COMMANDS = {"--help": ["--help"], "plan": ["plan", *STACK], "render": ["render", *STACK]}


@dataclass(frozen=True)
class Figure:
    """One command: median wall clock, median processor seconds, largest resident set of the process."""

    command: str
    seconds: float
    cpu_s: float
    peak_mb: float
    runs: int


def once(argv: Sequence[str]) -> tuple[float, float, float]:
    """Run to its end: seconds, processor seconds, peak MB. Raises RuntimeError when it fails."""
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}: {said.read().decode(errors='replace')}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(name: str, argv: Sequence[str], runs: int) -> Figure:
    """One run to warm the files, then `runs` that count."""
    once(argv)
    seconds, cpu, peak = zip(*(once(argv) for _ in range(runs)), strict=True)
    return Figure(name, statistics.median(seconds), statistics.median(cpu), max(peak), runs)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    flexserve = str(ROOT / ".venv" / "bin" / "flexserve")
    before = os.getloadavg()[0]
    calibration = measure("python -c pass", [sys.executable, "-c", "pass"], options.runs)
    figures = [measure(f"flexserve {name}", [flexserve, *words], options.runs) for name, words in COMMANDS.items()]
    idle = calibration.seconds <= IDLE_CALIBRATION_S
    over = [f.command for f in figures if f.seconds > SECONDS or f.peak_mb > MEGABYTES]
    code = 0 if not over else 1 if idle or any(f.peak_mb > MEGABYTES for f in figures) else 9
    if options.json:
        document = {
            "load": [round(before, 2), round(os.getloadavg()[0], 2)],
            "idle": idle,
            "budget": {"seconds": SECONDS, "peak_mb": MEGABYTES},
            "calibration": asdict(calibration),
            "figures": [asdict(f) for f in figures],
            "over": over,
        }
        print(json.dumps(document, indent=2))
        return code
    print(f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after; {'idle enough' if idle else 'busy: seconds say little'}")
    print(f"{'command':<20} {'seconds':>8} {'cpu s':>8} {'peak MB':>8}   median of {options.runs}")
    for figure in (calibration, *figures):
        mark = "  over the budget" if figure.command in over else ""
        print(f"{figure.command:<20} {figure.seconds:8.3f} {figure.cpu_s:8.3f} {figure.peak_mb:8.1f}{mark}")
    print(f"budget: {SECONDS} s, {MEGABYTES:.0f} MB")
    return code


if __name__ == "__main__":
    sys.exit(main())
