"""`python3 -m tools.setup [STEP...]`: see `--help`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tools.setup.disk import size
from tools.setup.host import Host
from tools.setup.report import Lines
from tools.setup.run import run_steps
from tools.setup.step import ACCOUNT, GROUPS, Outcome, Result, Step, closure
from tools.setup.table import STEPS, names

_EPILOG = """\
With no STEP: what an operator with a cloud account needs. The word `rehearsal`
stands for what a rehearsal needs besides, `tests` for everything.
Built things are kept in $FLEXSERVE_CACHE, else $XDG_CACHE_HOME/flexserve, else ~/.cache/flexserve, with what Go fetches
and compiles (unless GOMODCACHE and GOCACHE name other places). uv keeps what it downloads in a cache of its own.
FLEXSERVE_DOWNLOADS=no keeps away from Pulumi's download site: the engine is then built from Go modules.
Exit codes: 0 done, 1 a step failed, 2 usage, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, tell. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tools.setup",
        description="Makes this machine ready.",
        epilog=_EPILOG,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help="steps to take, with all that they need")
    parser.add_argument("--list", action="store_true", help="show the steps and whether they are done; change nothing")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args(argv)
    wanted: list[str] = []
    for word in options.steps or [ACCOUNT]:
        wanted += names(word) if word in GROUPS else [word]
    try:
        steps = closure(STEPS, wanted)
    except KeyError as unknown:
        parser.error(f"no step {unknown}; there are {', '.join(s.name for s in STEPS)}")
    host = Host.here(Path(__file__).resolve().parents[2])
    if options.list:
        return _list(host, as_json=options.json)
    return _take(host, steps, as_json=options.json)


def _take(host: Host, steps: Sequence[Step], *, as_json: bool) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lines = Lines(sys.stderr, terminal=sys.stderr.isatty())
    try:
        host.cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        lines.note(
            f"set-up: {host.cache} cannot be made: {error.strerror}\n  way out: name another place: FLEXSERVE_CACHE=/some/folder"
        )
        return 1
    stop = threading.Event()
    began = time.monotonic()
    takes = sum(step.takes_mb for step in steps)
    lines.note(f"set-up: built things are kept in {host.cache}; from nothing all of it takes about {size(takes)}")
    outcomes: list[Outcome] = []
    try:
        outcomes = run_steps(steps, host, lines, stop)
    except KeyboardInterrupt:
        lines.note("set-up: interrupted; nothing half made is left, what was downloaded is kept")
        return 130
    failed = [o.name for o in outcomes if o.result is Result.FAILED]
    seconds = time.monotonic() - began
    lines.note(f"set-up: {'failed at ' + ', '.join(failed) if failed else 'ready'} after {seconds:.1f} s")
    if as_json:
        document = {"cache": str(host.cache), "seconds": round(seconds, 2), "steps": [o.as_dict() for o in outcomes]}
        print(json.dumps(document, indent=2))
    return 1 if failed else 0


def _list(host: Host, *, as_json: bool) -> int:
    rows = [
        {
            "name": step.name,
            "group": step.group,
            "about": step.about,
            "needs": list(step.needs),
            "key": step.key(host),
            "done": step.done(host),
        }
        for step in STEPS
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        state = "ready" if row["done"] else "to do"
        print(f"{row['name']:<16} {row['group']:<10} {state:<6} {row['done'] or row['about']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
