"""`python -m benchmarks.faults [--stack STACK] [FAULT ...] [--json]`: each fault in a whole rehearsal, and how it ended.

Without names: every fault of the stack's target, one after another (half an hour). Exit 1 when one ends with another code, or in
another phase, than its row says. No time is a budget here; they show which faults end by waiting.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.deployment import from_stack_file
from rehearsal.contracts import Fault
from rehearsal.faults import for_target

ROOT = Path(__file__).resolve().parents[1]
STACK = "tpu-v6e"


@dataclass(frozen=True)
class Ended:
    """One rehearsal with one fault. `text` is what the verdict must name."""

    fault: str
    expected: int
    got: int
    text: str
    seconds: float
    verdict: str

    @property
    def ok(self) -> bool:
        """As the fault's row says."""
        return self.got == self.expected and self.text in self.verdict


def run(stack: str, fault: Fault) -> Ended:
    """The command that an operator types."""
    began = time.monotonic()
    argv = [sys.executable, "-m", "flexserve", "rehearse", stack, "--fault", fault.name, "--json"]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    try:
        verdict = str(json.loads(done.stdout)["verdict"])
    except (ValueError, KeyError):
        verdict = "no verdict on stdout"
    seconds = round(time.monotonic() - began, 1)
    return Ended(fault.name, int(fault.expect_exit), done.returncode, fault.expect_text, seconds, verdict)


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="names (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--stack", default=STACK, help=f"which stack (default: {STACK})")
    options = parser.parse_args()
    kind = from_stack_file(ROOT, options.stack).target.kind
    known = {fault.name: fault for fault in for_target(kind)}
    if unknown := [name for name in options.faults if name not in known]:
        parser.error(f"no fault {', '.join(unknown)}; one of {', '.join(known)}")
    rows = []
    for name in options.faults or known:
        rows.append(run(options.stack, known[name]))
        if not options.json:
            row = rows[-1]
            head = f"{row.fault:<20} expected {row.expected} got {row.got} {row.seconds:7.1f} s"
            print(f"{head}   {row.verdict[:90]}{'' if row.ok else '   WRONG'}", flush=True)
    if options.json:
        print(json.dumps({"faults": [{**asdict(row), "ok": row.ok} for row in rows]}, indent=2))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
