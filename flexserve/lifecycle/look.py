"""One look at a deployment: asks the live target what `state.describe` needs."""

from __future__ import annotations

from flexserve.lifecycle.state import Seen
from infra.targets.protocol import CanQueue, CanTellEnd, DeploymentRef, LiveTarget


def look(live: LiveTarget, ref: DeploymentRef) -> Seen:
    """The machine first; without one, the queue and the last create's failure."""
    machine = live.find(ref)
    if machine is not None:
        return Seen(ref, live.now(), machine, live.boot(ref))
    queued = live.queued(ref) if isinstance(live, CanQueue) else None
    failure = live.last_failure(ref) if queued is None else None
    ended = live.ended(ref) if isinstance(live, CanTellEnd) else ""
    return Seen(ref, live.now(), None, None, failure, queued, ended)
