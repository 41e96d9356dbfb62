"""How long things take on the cloud's clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """Seconds. A client that turns the clock while it waits does not notice."""

    pending: float = 3.0
    """From RunInstances to running."""
    stopping: float = 3.0
    """From TerminateInstances to terminated, and from StopInstances to stopped."""
    iam: float = 4.0
    """From a change of a role, policy or profile until the other services act by it."""
    forgotten: float = 3600.0
    """How long a terminated instance is still described."""


AT_ONCE = Pace(pending=0.0, stopping=0.0, iam=0.0)
"""Nothing waits (but what an event on the clock does is still an event: it runs at the next turn)."""
