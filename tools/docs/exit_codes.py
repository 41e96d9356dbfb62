"""The exit codes, from the enum."""

from __future__ import annotations

from verdict.exit_codes import ExitCode


def page() -> str:
    """docs/reference/exit-codes.md."""
    lines = [
        "# Exit codes",
        "",
        "Of every `flexserve` command. Pulumi's own commands have their own.",
        "",
        "| code | meaning |",
        "| --- | --- |",
        *(f"| {int(code)} | {code.meaning} |" for code in ExitCode),
    ]
    return "\n".join(lines) + "\n"
