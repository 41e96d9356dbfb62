"""`python -m benchmarks.commands [--json]`: what `flexserve --help`, `plan` and `render` cost; at most 0.4 s and 60 MB each, idle.

Beside each figure: the machine's load, and a calibration run (this Python starting, and importing what typer and pydantic need),
since a busy machine is several times slower. The exit code is 1 when a figure is over its limit on an idle machine.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = ("--set", "target.project=acme-1", "--set", 'access.members=["user:ops@acme.test"]')
COMMANDS = {
    "--help": ("--help",),
    "plan": ("plan", "-s", "tpu-v6e", *SETS),
    "render": ("render", "-s", "tpu-v6e", *SETS),
}
RUNS = 7
LIMIT_S, LIMIT_MB = 0.4, 60.0
IDLE_LOAD = 0.5  # a core of two


def run(argv: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak memory in MB of one process."""
    started = time.perf_counter()
    with Path(os.devnull).open("w") as nothing:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1), (os.POSIX_SPAWN_DUP2, nothing.fileno(), 2)],
        )
        _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{argv[1:]} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(words: tuple[str, ...]) -> dict[str, float]:
    """Medians of some runs, after one that fills the caches."""
    argv = [sys.executable, *words]
    run(argv)
    runs = [run(argv) for _ in range(RUNS)]
    names = ("seconds", "processor_s", "mb")
    return {name: round(statistics.median(r[i] for r in runs), 3) for i, name in enumerate(names)}


def main() -> int:
    """Measure and print."""
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as bytecode:
        # as after `make setup`, which compiles the environment: here compiled once, in a folder of its own
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ |= {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONPATH": str(ROOT)}
        calibration = measure(("-c", "import argparse, json, re, dataclasses, typing"))
        figures = {name: measure(("-m", "flexserve.cli", *words)) for name, words in COMMANDS.items()}
    load = os.getloadavg()[0]
    over = [n for n, f in figures.items() if f["seconds"] > LIMIT_S or f["mb"] > LIMIT_MB]
    if "--json" in sys.argv:
        limits = {"seconds": LIMIT_S, "mb": LIMIT_MB}
        print(json.dumps({"load": load, "calibration": calibration, "figures": figures, "limits": limits, "over": over}))
    else:
        print(f"load {load:.1f}; calibration {calibration['seconds']:.3f} s, {calibration['processor_s']:.3f} s of processor")
        for name, f in figures.items():
            print(
                f"{name:<8} {f['seconds']:.3f} s, {f['processor_s']:.3f} s of processor, {f['mb']:.0f} MB"
                + ("  OVER" * (name in over))
            )
        print(f"limit {LIMIT_S} s, {LIMIT_MB:.0f} MB, idle" + ("" if load < IDLE_LOAD else "; this machine is not idle"))
    return 1 if over and load < IDLE_LOAD else 0


if __name__ == "__main__":
    sys.exit(main())
