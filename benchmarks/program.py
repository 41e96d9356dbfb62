"""Our own part of `pulumi preview`: the program from its first line to its last registration, the SDKs' import left out.

`python -m benchmarks.program [--json]`: median of several runs against the budget, beside the load and a calibration run.
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

BUDGET_S = 0.2
RUNS = 5
ROOT = Path(__file__).resolve().parents[1]
STACK = "tpu-v6e"

RUN = """
import json, os, runpy, sys, time
sys.path.insert(0, os.getcwd())
import pulumi, pulumi.runtime.config, yaml
import pulumi_gcp as gcp  # its modules are loaded at their first use: here, so that it is not counted
gcp.compute.Instance, gcp.iap.TunnelInstanceIAMMember, gcp.secretmanager.SecretIamMember, gcp.serviceaccount.Account

STACK = sys.argv[1]
config = yaml.safe_load(open(f"stacks/Pulumi.{STACK}.yaml"))["config"]
config["flexserve:target"]["project"] = "acme-1"
config["flexserve:access"]["members"] = ["user:ops@acme.test"]
config["flexserve:image"]["name"] += "@sha256:" + "a" * 64
config["flexserve:model"]["revision"] = "b" * 40
config["flexserve:target"]["host_image"] = "projects/acme-1/global/images/y"

class Mocks(pulumi.runtime.Mocks):
    def new_resource(self, args):
        return args.name, {**args.inputs, "email": "a@b", "creationTimestamp": "2026-11-29T18:34:04.000-00:00"}
    def call(self, args):
        return {"outputs": {}}

pulumi.runtime.set_mocks(Mocks(), project="flexserve", stack=STACK, preview=True)
pulumi.runtime.config.set_all_config({k: v if isinstance(v, str) else json.dumps(v) for k, v in config.items()})

@pulumi.runtime.test
def program():
    runpy.run_path("infra", run_name="__main__")

started, busy = time.perf_counter(), time.process_time()
program()
print(json.dumps({"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - busy}))
"""


def once() -> dict[str, float]:
    """Wall and CPU seconds of one run in a fresh process."""
    argv = [sys.executable, "-W", "ignore", "-c", RUN, STACK]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"the program failed:\n{ran.stderr}")
    measured: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return measured


def calibration() -> float:
    """Seconds of an interpreter that does nothing: what this machine is worth now."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    runs = [once() for _ in range(options.runs)]
    figure = {
        "what": "the program without the SDKs' import",
        "seconds": round(statistics.median(run["seconds"] for run in runs), 3),
        "cpu_s": round(statistics.median(run["cpu_s"] for run in runs), 3),
        "budget_s": BUDGET_S,
        "calibration_s": round(statistics.median(calibration() for _ in range(options.runs)), 3),
        "load": round(os.getloadavg()[0], 2),
    }
    if options.json:
        print(json.dumps(figure))
        return
    beside = f"load {figure['load']}, `python -c pass` {figure['calibration_s']} s"
    print(f"{figure['what']}: {figure['seconds']} s ({figure['cpu_s']} s of CPU) of {BUDGET_S} ({beside})")


if __name__ == "__main__":
    main()
