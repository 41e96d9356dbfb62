"""Where `flexserve` begins: a setting that makes a short command a fifth shorter, then the command line."""

from __future__ import annotations

import atexit
import gc
import sys


def main() -> int:
    """Run the command line; the exit code."""
    gc.set_threshold(50_000, 20, 20)  # imports make many objects and no garbage; looking for it took a fifth of a `plan`
    atexit.register(gc.freeze)  # nor is it looked for at the end, which comes sooner
    try:
        from flexserve.cli import main as run

        return run()
    except KeyboardInterrupt:  # while modules are imported, before anything that could say it better
        if "--json" in sys.argv:
            from flexserve.cli.endings import failed, output_of
            from verdict.errors import Interrupted

            return failed(Interrupted("interrupted before the command began"), output_of(sys.argv[1:]), debug=False)
        sys.stderr.write("error: interrupted before the command began\n")
        return 130
