#!/usr/bin/python3 -SE
"""runc for a machine whose root lacks CAP_SYS_RESOURCE: drops that one capability and clamps limits to the hard ones.

It grants nothing, and does nothing where the capability is there. Runs in the machine, on its own python3.
"""

import json
import os
import resource
import sys
from pathlib import Path

CAP_SYS_RESOURCE = 24


def clamp(config: Path) -> None:
    """Rewrite one container's config in place."""
    container = json.loads(config.read_text())
    process = container["process"]
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
    for limit in process.get("rlimits") or []:
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit["hard"], limit["soft"] = min(limit["hard"], hard), min(limit["soft"], hard)
    config.write_text(json.dumps(container))


def bounded() -> bool:
    """Whether this process may never have the capability."""
    lines = Path("/proc/self/status").read_text().splitlines()
    bounding = next(int(line.split()[1], 16) for line in lines if line.startswith("CapBnd"))
    return not bounding >> CAP_SYS_RESOURCE & 1


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if ("create" in arguments or "run" in arguments) and bounded():
        bundle = arguments[arguments.index("--bundle") + 1] if "--bundle" in arguments else "."
        clamp(Path(bundle) / "config.json")
    os.execv("/usr/sbin/runc", ["runc", *arguments])
