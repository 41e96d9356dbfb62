"""What the command line asks of a running target. It never asks which target it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.places import Place
    from startup.phases import BootStatus


SHORT = 4096
"""Bytes; see `LiveTarget.log`."""


class State(StrEnum):
    """Where a deployment stands. *Created* and *serving* are different; *expired* is normal."""

    ABSENT = "absent"
    QUEUED = "queued"
    CREATED = "created"
    SERVING = "serving"
    STOPPED = "stopped"
    EXPIRED = "expired"
    RECLAIMED = "reclaimed"
    FAILED = "failed"


@dataclass(frozen=True)
class DeploymentRef:
    """One deployment, as the stack's outputs name it. `id` is the random id that all its things carry."""

    stack: str
    id: str
    outputs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """A machine (or endpoint) as the cloud shows it now."""

    name: str
    where: str
    cloud_state: str
    created_at: datetime | None
    expires_at: datetime | None
    labels: Mapping[str, str]
    provisioning: str = ""  # how it was really given, in the catalog's words (flex_start, spot, on_demand); empty: cannot tell
    updated: bool = False  # moved to other machines since its create, which ran beside the old ones for a while
    dead: str = ""  # why it never served, never will and cannot be changed: it is deleted and made anew. Empty for all others


@dataclass(frozen=True)
class Billable:
    """A thing that can bill. `price_per_hour` is None when the catalog does not know it."""

    kind: str
    name: str
    where: str
    price_per_hour: float | None = None
    kept: str = ""  # why it is kept on purpose; empty when it should be gone


class LiveTarget(Protocol):
    """The running thing of one target, asked over the cloud's own API (never through Pulumi).

    Every method makes its own calls, returns when it knows, and raises `NoAccess` when the cloud will not say.
    """

    def now(self) -> datetime:
        """The cloud's time (its answers' Date), UTC: what `expires_at` is compared with, whatever this machine's clock says."""

    def find(self, deployment: DeploymentRef) -> Machine | None:
        """The machine that carries the id, whatever Pulumi's state says. None when there is none."""

    def boot(self, deployment: DeploymentRef) -> BootStatus | None:
        """What the machine last reported about its boot. None when it has not reported yet or is gone."""

    def log(self, deployment: DeploymentRef, *, since: int = 0) -> tuple[str, int]:
        """A piece of the boot and server log from offset `since`, and the next offset. Empty when there is none (yet).

        A piece fits in memory whatever the log's length. One of less than `SHORT` bytes ends where the log ends now; after any
        other there may be more.
        """

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        """Everything of the id that can bill, in every place it may be. Never raises for a place that is empty."""

    def delete(self, thing: Billable) -> None:
        """Returns when it is gone; already gone is success."""

    def last_failure(self, deployment: DeploymentRef) -> Failure | None:
        """Why the last create of this deployment failed, from the cloud's own record of operations. None when it did not."""

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        """What the cloud's own words mean: `NoCapacity`, `NoAccess`, `TimedOut`, …; None for words it does not know.

        `text` is a `Failure.message` or a diagnostic that the engine printed, `code` a `Failure.code`. Makes no call.
        """


@dataclass(frozen=True)
class Failure:
    """A failed create as the cloud recorded it: its own code and words, and where.

    `at`: when it was asked for, or failed, by the cloud's clock; None where that is not known. It may be of an earlier run.
    """

    code: str
    message: str
    where: str
    at: datetime | None = None


@dataclass(frozen=True)
class QueueEntry:
    """A request for capacity that waits in the cloud's queue."""

    name: str
    state: str
    since: datetime


@runtime_checkable
class CanQueue(Protocol):
    """A target whose cloud queues requests for capacity."""

    def queued(self, deployment: DeploymentRef) -> QueueEntry | None:
        """The waiting request, or None."""


@runtime_checkable
class CanTellChances(Protocol):
    """A target whose cloud forecasts where it has capacity: a hint for the order of places, nothing to rely on."""

    def chances(self, places: Sequence[Place]) -> Mapping[str, int]:
        """By the name of a place: a higher number is likelier. Places that the cloud does not score are left out.

        Raises `NoAccess` where the operator may not ask, and whatever else the cloud refuses with.
        """


@runtime_checkable
class CanTellEnd(Protocol):
    """A target whose cloud still knows for a while why a machine that is gone has gone."""

    def ended(self, deployment: DeploymentRef) -> str:
        """One clause, e.g. `EC2 took the spot machine back`; empty when the cloud does not know (any more)."""


@dataclass(frozen=True)
class KeptBuild:
    """A build that is kept: where, the bytes of its archive, and what its manifest says. Dollars a month, None when unknown."""

    place: str
    size: int
    manifest: Mapping[str, object]
    price_per_month: float | None = None


class Builds(Protocol):
    """What makes a target's server once, on a machine of its own: `connect` of a target's `builder`, where it has that file.

    The machine is no part of the stack. It is found by its own id, and gone when the build is kept.
    """

    @property
    def key(self) -> str:
        """The name under which the build is kept."""

    def kept(self) -> KeptBuild | None:
        """The build, whole; None where there is none yet."""

    def find(self) -> DeploymentRef | None:
        """A builder of this stack and owner that lives, whoever began it; None when there is none."""

    def ref(self, id_: str) -> DeploymentRef:
        """A builder of this id, whether there is one or not: what a note keeps of it."""

    def live(self, ref: DeploymentRef) -> LiveTarget:
        """Its running side. `boot` ends in the state `done`, and tells what the builder said last also when it is gone."""

    def begin(self, ref: DeploymentRef, say: Callable[[str], None]) -> None:
        """Make it; returns when the cloud has granted the machine. Raises `NoCapacity`, `NoAccess`, …; what it made by then
        is in `inventory`.
        """

    def price_now(self) -> float | None:
        """Dollars an hour of the machine alone, by the cloud's word; None when it does not say."""


class Watch(Protocol):
    """One run's look at a machine, which began when it was made: what happened before, or shows of it, is no evidence."""

    @property
    def stands(self) -> str:
        """One clause on what serves on though the run failed to change it, e.g. `fs-1 serves on as before (…)`; else empty."""

    def look(self, said: Sequence[str] = ()) -> FlexserveError | None:
        """The error to end with, once the evidence is there; None while it may still serve, and when there is nothing to see.

        Asked every few seconds while the engine works, and once after it: `said` is what it failed with, if it did, and evidence
        of this run too. Raises as `LiveTarget`'s methods do.
        """


@runtime_checkable
class CanWatch(Protocol):
    """A target whose machine tells why it will never serve long before the cloud gives it up."""

    def watch(self, deployment: DeploymentRef, *, new: bool = False) -> Watch:
        """Before the engine changes anything. It asks what is there then; `new`: nothing can be, as the id is of this run."""

    def hopeless(self, deployment: DeploymentRef) -> FlexserveError | None:
        """Why a machine that has not served yet, whoever asked for it, never will; None while it may, and for any other."""


@runtime_checkable
class CanHold(Protocol):
    """A target whose cloud deletes a machine some time after it was asked to, and refuses to while it makes or changes it."""

    def held(self, deployment: DeploymentRef) -> str:
        """One clause, e.g. `fs-1 is Creating`; empty when it can be deleted now, or is not there."""

    def holder(self, deployment: DeploymentRef) -> Billable | None:
        """The machine as a thing of the inventory; None when there is none. `delete` returns at its end: only then may go what
        the cloud needs for that, a role.
        """


@dataclass(frozen=True)
class Life:
    """A deployment of which the cloud has something. `going_on`: how it is seen that it serves, or is being made or deleted;
    empty for one that is over. `kept`: what is left of it on purpose.
    """

    ref: DeploymentRef
    going_on: str = ""
    kept: tuple[Billable, ...] = ()


@runtime_checkable
class CanRecall(Protocol):
    """A target whose cloud tells which deployments a stack has had."""

    def lives(self, stack: str, owner: str) -> Sequence[Life]:
        """Those of this stack and owner of which something is there, by their tags, whatever any state knows. Nobody else's.

        Raises as `LiveTarget`'s methods do.
        """


@runtime_checkable
class CanScale(Protocol):
    """A target that serves from several machines."""

    def scale(self, deployment: DeploymentRef, replicas: int) -> None:
        """Returns when the cloud has accepted the number; raises `Refused` outside the plan's bounds."""


@runtime_checkable
class CanBake(Protocol):
    """A target that can save a warm machine image."""

    def bake(self, deployment: DeploymentRef) -> str:
        """The image's name; returns when it is ready."""
