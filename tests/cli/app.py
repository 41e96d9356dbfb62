"""The commands of the app by their full name."""

from __future__ import annotations

from tools.docs.commands import commands

COMMANDS = commands()
