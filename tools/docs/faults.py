"""The faults of a rehearsal, from their registry."""

from __future__ import annotations

from rehearsal.faults import FAULTS
from verdict.exit_codes import ExitCode


def page() -> str:
    """docs/reference/faults.md."""
    lines = [
        "# Faults",
        "",
        "Ways to break a rehearsal: `flexserve rehearse STACK --fault NAME`. The last column is the code with which it must end.",
        "",
        "| fault | targets | what happens | ends with |",
        "| --- | --- | --- | --- |",
        *(
            f"| `{f.name}` | {', '.join(f.targets)} | {f.about} | {int(f.expect_exit)}, {ExitCode(f.expect_exit).meaning} |"
            for f in sorted(FAULTS.values(), key=lambda f: (f.targets, f.name))
        ),
    ]
    return "\n".join(lines) + "\n"
