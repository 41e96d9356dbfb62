"""What runs the server: an engine with one server in it. Docker's is a container, systemd's is a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Server:
    """What the engine says of it. `started_at` is RFC 3339, UTC; `status`: running, restarting, exited, dead, created."""

    id: str
    config: str
    status: str
    restarts: int
    started_at: str
    exit_code: int
    oom: bool

    @property
    def running(self) -> bool:
        """It runs; not: it serves."""
        return self.status == "running"


class Log(Protocol):
    """The server's output."""

    def lines(self) -> list[tuple[str, str]]:
        """(time stamp, text) printed since the last call, over restarts of the server. Stamps sort as text."""


class Engine(Protocol):
    """A module of the boot: `docker` or `unit`."""

    def inspect(self) -> Server | None:
        """The server, or None when there is none. Raises `Failed` when the engine does not answer."""

    def stop(self) -> None:
        """Stop it, with time to let go of the accelerator. Not there is fine."""

    def remove(self) -> None:
        """Stop and remove it. Not there is fine."""

    def run(self, words: Sequence[str]) -> None:
        """Start it. Raises `Failed` with the engine's words."""

    def log(self, since: str) -> Log:
        """Its output from a time stamp on; empty: all."""


def named(name: str) -> Engine:
    """The engine of that name."""
    import importlib

    module: Engine = importlib.import_module(f"startup.onboard.{name}")
    return module
