"""What the lifecycle is made of: an engine, a live target, a way to ask the server, a clock. Passed in: tests fake each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flexserve.checks.nonce import Answer
from infra.targets.protocol import DeploymentRef, LiveTarget
from verdict.errors import FlexserveError
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from flexserve.lifecycle.making import Making


class Clock(Protocol):
    """The time of the machine we run on, for limits. What expired and what it cost is read from the cloud's time."""

    def monotonic(self) -> float:
        """Seconds since some start."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """The clock outside of tests."""

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Changes:
    """What the engine did, or would do: how many resources of each operation (`create`, `update`, `replace`, `delete`, `same`).

    `left`: those that it forgot and left in the cloud.
    """

    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Resources that are not left as they are."""
        return sum(n for op, n in self.counts.items() if op not in ("same", "refresh", "read"))

    @property
    def words(self) -> str:
        """`12 created, 1 updated`, or `nothing changed`."""
        past = {"create": "created", "update": "updated", "replace": "replaced", "delete": "deleted", "left": "left in the cloud"}
        parts = [f"{n} {past[op]}" for op, n in self.counts.items() if op in past and n]
        return ", ".join(parts) or "nothing changed"


class Engine(Protocol):
    """The Pulumi engine on one stack. Each method returns when the engine has ended and the state is written.

    Raises `EngineFailed` when the engine failed, `Interrupted` after Ctrl-C.
    """

    def preview(self) -> Changes:
        """What `up` would do. Changes nothing."""

    def up(self, *, rerun: bool = False, place: str = "") -> Changes:
        """Create or update; the stack is made when the backend does not have it. `rerun`: the boot runs again on the machine.

        `place`: where to ask for a machine, of the stack file's places; empty leaves it to the program.
        """

    def destroy(self) -> Changes:
        """Refresh, then delete everything in the state."""


class Unfinished(Protocol):
    """What an earlier `down` has begun to delete and not seen gone."""

    def read(self) -> DeploymentRef | None:
        """The deployment, or None."""

    def write(self, ref: DeploymentRef) -> None:
        """Before anything is deleted. Raises `OSError` where it cannot be kept."""

    def remove(self) -> None:
        """Once nothing is left."""


class EngineFailed(FlexserveError):
    """The engine ended in an error. `diagnostics` are its error messages, `log` is where all of its output is kept."""

    kind = "engine"

    def __init__(self, what: str, *, diagnostics: tuple[str, ...] = (), log: str = "") -> None:
        super().__init__(what, why=diagnostics[0] if diagnostics else "", way_out=f"the full log is {log}" if log else "")
        self.diagnostics = diagnostics
        self.log = log


class BootFailed(FlexserveError):
    """The machine exists and its boot failed. `phase` is where."""

    exit_code = ExitCode.FAILED
    kind = "boot-failed"

    def __init__(self, stack: str, phase: str, cause: str, log_tail: str) -> None:
        super().__init__(
            f"the boot failed in phase {phase or 'unknown'}: {cause or 'no cause was reported'}",
            why=log_tail.strip(),
            way_out=f"flexserve logs -s {stack} shows more; `flexserve up -s {stack}` runs the boot again on the same machine, "
            f"which bills until `flexserve down -s {stack}`",
        )
        self.phase, self.cause, self.log_tail = phase, cause, log_tail

    def as_dict(self) -> dict[str, object]:
        """The error with its phase and the end of that phase's log."""
        document = super().as_dict()
        document["error"] = {
            **document["error"],  # type: ignore[dict-item]
            "phase": self.phase,
            "cause": self.cause,
            "log_tail": self.log_tail,
        }
        return document


@dataclass(frozen=True)
class Leftover:
    """A machine that made, or was to make, the stack's build: its running side, its id, and the note that names it."""

    live: LiveTarget
    ref: DeploymentRef
    note: Unfinished


@dataclass(frozen=True)
class Parts:
    """One stack's surroundings. `read` gives what the state knows now; `ask` sends a nonce through the tunnel; `builder` gives
    what may be left of a `build`, `making` what is kept of it and who makes it now.

    `known` says whether the backend has the stack at all; it may, without a deployment (everything is down, or never came up).
    `bare`: whether it is certain that an engine would find nothing there. `recalls`: the running side, where there is enough to ask
    it about the stack itself, and `owner`: whose it is.
    """

    stack: str
    known: Callable[[], bool]
    read: Callable[[], DeploymentRef | None]
    live: Callable[[DeploymentRef | None], LiveTarget]
    engine: Callable[[], Engine]
    ask: Callable[[DeploymentRef], Answer]
    unfinished: Unfinished
    clock: Clock = field(default_factory=RealClock)
    builder: Callable[[], Leftover | None] = lambda: None
    making: Callable[[], Making | None] = lambda: None
    bare: Callable[[], bool] = lambda: False
    recalls: Callable[[DeploymentRef | None], LiveTarget | None] = lambda _: None
    owner: Callable[[DeploymentRef | None], str] = lambda _: ""
