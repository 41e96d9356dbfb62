"""Flex-start requests that may wait for capacity: PENDING until it comes, or until the wait is over.

Source: Compute Engine instance lifecycle, 2026-04-14. How the operation of a wait that is over ends is documented nowhere: here it
ends as the stock-out that the request met.
"""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.cloud.google import operations
from rehearsal.cloud.google.call import Call, Json, OperationError
from rehearsal.cloud.google.errors import invalid
from rehearsal.cloud.google.state import State, Waiting

SHORTEST_WAIT_S = 90
LONGEST_WAIT_S = 7200


def wait_seconds(params: Json) -> int:
    """How long the request may wait, in seconds; 0: now or never. Raises compute's 400 for a wait that Google does not take."""
    seconds = int(params.get("requestValidForDuration", {}).get("seconds", 0))
    if seconds and not SHORTEST_WAIT_S <= seconds <= LONGEST_WAIT_S:
        why = f"Must be 0, or between {SHORTEST_WAIT_S} and {LONGEST_WAIT_S} seconds."
        raise invalid("resource.params.requestValidForDuration", f"{seconds}s", why)
    return seconds


def enqueue(state: State, call: Call, path: str, value: Json, start: Callable[[], None], doom: OperationError) -> Json:
    """Put the instance into the queue and answer its operation. `start` makes it be, under the lock, once there is capacity."""
    seconds = wait_seconds(call.body.get("params", {}))
    value["status"] = "PENDING"
    state.compute[path] = value
    operation = operations.waiting(state, call, path, "insert", at_most=seconds)

    def grant() -> None:
        timer.cancel()
        value["status"] = "PROVISIONING"
        start()
        operations.end_at(state, operation, state.clock.now() + state.pace.provisioning + state.pace.staging)

    def give_up() -> None:
        timer.cancel()
        operations.fail(state, operation, doom)

    def over() -> None:
        with state.lock:
            if (waiting := state.queue.pop(path, None)) is not None:
                state.compute.pop(path, None)
                waiting.give_up()

    timer = state.clock.after(seconds, over)
    state.queue[path] = Waiting(grant, give_up)
    return operations.shown(state.operations[operation])


def capacity_came(state: State, zone: str) -> None:
    """Everything that waits in the zone (in every one, without a name) starts. Called under the lock."""
    for path in [p for p in state.queue if f"/zones/{zone}" in p or not zone]:
        state.queue.pop(path).grant()
