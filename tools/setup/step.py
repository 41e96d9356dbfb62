"""What a step of the set-up is, and how one ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.setup.host import Host
    from tools.setup.work import Work

ACCOUNT = "account"  # what an operator with a cloud account needs
REHEARSAL = "rehearsal"  # what the rehearsal needs besides
TESTS = "tests"  # what only the tests need
GROUPS = (ACCOUNT, REHEARSAL, TESTS)  # each with all before it


class StepFailed(Exception):
    """A step cannot be done. `exit_code` is that of the command that failed, None when none ran."""

    def __init__(self, what: str, *, way_out: str = "", exit_code: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.way_out = way_out
        self.exit_code = exit_code


class Skip(Exception):
    """A step does not apply on this machine; the words say why and what stands in."""


class Stopped(Exception):
    """The operator pressed Ctrl-C, or another step failed."""


class Result(StrEnum):
    """How a step ended."""

    READY = "ready"  # was there already
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Step:
    """One row of the table.

    `key` is the hash of all that the result depends on; `done` says in words what is there, or None when the step has
    to run; `run` does it, says in words what is there now, and raises `StepFailed`, `Skip` or `Stopped`; `where` is
    what it keeps. `takes_mb` is about how much `run` takes at its most, in 10^6 bytes as measured on Debian 12, on the file
    system of `room`. `limit_s` bounds `run`, in seconds: it is there to
    end what hangs, so it is many times what an idle machine needs.
    """

    name: str
    about: str
    key: Callable[[Host], str]
    done: Callable[[Host], str | None]
    run: Callable[[Host, Work], str]
    where: Callable[[Host], Path | None] = lambda _host: None
    needs: tuple[str, ...] = ()
    group: str = ACCOUNT
    limit_s: float = 600.0
    takes_mb: int = 0
    room: Callable[[Host], Path] = lambda host: host.cache


@dataclass(frozen=True)
class Outcome:
    """How one step ended. `seconds` is wall clock; `log` is None when nothing ran."""

    name: str
    result: Result
    seconds: float
    words: str
    where: Path | None = None
    log: Path | None = None
    way_out: str = ""
    exit_code: int | None = None

    def as_dict(self) -> dict[str, object]:
        """The row for `--json`."""
        return {
            "name": self.name,
            "result": str(self.result),
            "seconds": round(self.seconds, 2),
            "words": self.words,
            "where": str(self.where) if self.where else None,
            "log": str(self.log) if self.log else None,
            "way_out": self.way_out,
            "exit_code": self.exit_code,
        }


def closure(steps: tuple[Step, ...], names: list[str]) -> list[Step]:
    """The named steps and all that they need, in the table's order. Raises KeyError for an unknown name."""
    by_name = {step.name: step for step in steps}
    wanted: set[str] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name not in wanted:
            wanted.add(name)
            open_names.extend(by_name[name].needs)
    return [step for step in steps if step.name in wanted]
