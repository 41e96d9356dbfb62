"""Where a deployment stands, from what the state, the cloud and the machine say. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from flexserve.lifecycle import keeps
from flexserve.lifecycle.money import Spent, number, scales, spent
from infra.targets.protocol import Billable, DeploymentRef, Failure, Life, Machine, QueueEntry, State
from startup.phases import BootStatus, Phase

STOPPED = frozenset({"stopped", "stopping", "terminated", "suspended", "suspending", "shutting-down"})
ENDING = frozenset({"stopping", "suspending", "shutting-down"})
"""On the way to stopped or to gone: which of the two, a later look says."""
GONE = frozenset({State.EXPIRED, State.RECLAIMED})


@dataclass(frozen=True)
class Seen:
    """One look: the state's reference, the machine, its last report, and the cloud's time."""

    ref: DeploymentRef | None
    now: datetime
    machine: Machine | None = None
    boot: BootStatus | None = None
    failure: Failure | None = None
    queued: QueueEntry | None = None
    ended: str = ""


@dataclass(frozen=True)
class Status:
    """The `status` document of the contract. Money is in US dollars, of the parts whose price is known."""

    stack: str
    state: State
    phase: str = ""
    cause: str = ""
    expires_at: datetime | None = None
    seconds_left: int | None = None
    cost_so_far: float | None = None
    cost_is: str = ""
    price_per_hour: float | None = None
    price_per_hour_most: float | None = None
    zone: str = ""
    id: str = ""
    running: str = ""
    wanted: str = ""
    phases: tuple[Phase, ...] = ()
    kept: tuple[Billable, ...] = ()  # of what is absent
    others: tuple[Life, ...] = ()  # that go on, and this state does not know

    @property
    def current(self) -> bool:
        """Whether the machine runs the script that was asked for."""
        return not self.wanted or self.running == self.wanted

    def as_dict(self, *, boot: bool = False) -> dict[str, object]:
        """The document; `boot` adds the timeline."""
        return {
            "stack": self.stack,
            "state": str(self.state),
            "phase": self.phase,
            "cause": self.cause,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "seconds_left": self.seconds_left,
            "cost_so_far": self.cost_so_far,
            "cost_is": "unknown" if self.cost_so_far is None else self.cost_is or "exact",
            "price_per_hour": self.price_per_hour,
            "zone": self.zone,
            "id": self.id,
            "script": {"running": self.running, "wanted": self.wanted},
            **({"kept": [keeps.kept(thing) for thing in self.kept]} if self.state is State.ABSENT else {}),
            **({"phases": [{**asdict(p), "needs": list(p.needs)} for p in self.phases]} if boot else {}),
        }


def describe(stack: str, seen: Seen) -> Status:
    """The deployment's state. A machine that is gone after its window is *expired*, before it *reclaimed*; both are normal."""
    ref, machine, boot = seen.ref, seen.machine, seen.boot
    if ref is None:
        return Status(stack, State.ABSENT)
    outputs = ref.outputs
    expires = expiry(seen)
    state, cause = _state(seen, expires)
    paid = _cost(seen, expires, state)
    lives = state not in (*GONE, State.ABSENT, State.FAILED) or machine is not None
    return Status(
        stack,
        state,
        phase=(boot.phase if boot else "") or (machine.cloud_state.lower() if machine and state is State.CREATED else ""),
        cause=cause,
        expires_at=expires,
        seconds_left=max(0, int((expires - seen.now).total_seconds())) if expires and lives else None if not expires else 0,
        cost_so_far=paid.cost,
        cost_is=paid.how,
        price_per_hour=number(outputs.get("price_per_hour")),
        price_per_hour_most=number(outputs.get("price_per_hour_most")) if scales(outputs) else None,
        zone=machine.where if machine else str(outputs.get("zone", "")),
        id=ref.id,
        running=boot.script if boot else "",
        wanted=str(outputs.get("script_sha256", "")),
        phases=boot.phases if boot else (),
    )


def _state(seen: Seen, expires: datetime | None) -> tuple[State, str]:
    machine, boot = seen.machine, seen.boot
    over = expires is not None and seen.now >= expires
    if machine is None:
        return _without_machine(seen, expires, over)
    if machine.cloud_state.lower() in STOPPED:
        if over:
            return State.EXPIRED, "the window closed; the cloud is deleting the machine"
        return State.STOPPED, f"the machine is {machine.cloud_state}"
    if machine.cloud_state.lower() == "pending":
        return State.QUEUED, "the request waits for capacity"
    if over and (boot is None or boot.state not in ("failed", "reclaimed")):
        return State.EXPIRED, "the window closed; the machine is still there, and bills until the cloud deletes it"
    if boot is None:
        return State.CREATED, ""
    known = {"serving": State.SERVING, "failed": State.FAILED, "reclaimed": State.RECLAIMED}
    return known.get(boot.state, State.CREATED), boot.cause


def _without_machine(seen: Seen, expires: datetime | None, over: bool) -> tuple[State, str]:
    if seen.queued is not None:
        return State.QUEUED, f"{seen.queued.name} is {seen.queued.state} since {seen.queued.since.isoformat()}"
    created = expires is not None  # exported only once the machine was made; a name may be exported without it
    if over and created:
        return State.EXPIRED, "the window closed and the cloud deleted the machine"
    if seen.failure is not None:
        return State.FAILED, f"the last create failed in {seen.failure.where}: {seen.failure.code} {seen.failure.message}".rstrip()
    if created:
        left = f" {int((expires - seen.now).total_seconds())} s before its window closed" if expires else ""
        return State.RECLAIMED, f"the machine is gone{left}: {seen.ended or 'the cloud took it back, or somebody deleted it'}"
    return State.ABSENT, ""


def _cost(seen: Seen, expires: datetime | None, state: State) -> Spent:
    """What the machine's life has cost. None when a price or the start is unknown."""
    if state is State.ABSENT:
        return Spent(None)
    return spent(seen.ref.outputs if seen.ref else {}, seen.machine, *_life(seen, expires))


def lived(seen: Seen) -> float | None:
    """Seconds that the machine has been there; None where none was ever made."""
    began, end = _life(seen, expiry(seen))
    return max(0.0, (end - began).total_seconds()) if began is not None else None


def expiry(seen: Seen) -> datetime | None:
    """When the window closes: the cloud's word, or the state's."""
    told = time_of(seen.ref.outputs.get("expires_at")) if seen.ref else None
    return (seen.machine.expires_at if seen.machine else None) or told


def _life(seen: Seen, expires: datetime | None) -> tuple[datetime | None, datetime]:
    """From create to now, or to the window's end where it may have ended then."""
    window = number(seen.ref.outputs.get("window_s")) if seen.ref else None
    began = seen.machine.created_at if seen.machine else None
    if began is None and expires is not None and window is not None:
        began = expires - timedelta(seconds=window)
    ends = seen.machine is None or seen.machine.cloud_state.lower() in STOPPED
    return began, min(seen.now, expires) if expires and ends else seen.now


def time_of(value: object) -> datetime | None:
    """An RFC 3339 time of the outputs, UTC; None when it is not one."""
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
