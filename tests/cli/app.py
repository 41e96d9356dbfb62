"""The commands of the app by their full name, for tests and generated docs."""

from __future__ import annotations

from typing import Any

import typer.main

from flexserve.cli import app

ROOT: Any = typer.main.get_command(app)


def commands(group: Any = ROOT, prefix: str = "") -> dict[str, Any]:
    """`secret put` -> its command object, in the order of the help."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found.update(commands(command, f"{prefix}{name} "))
        else:
            found[f"{prefix}{name}"] = command
    return found


COMMANDS = commands()
