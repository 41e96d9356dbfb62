"""The command line: its words are declared here, one module a kind of command; what a command does is in `flexserve.commands`."""

from flexserve.cli.run import main
from flexserve.cli.top import app

__all__ = ["app", "main"]
