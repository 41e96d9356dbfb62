"""Which function answers which method of Google's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rehearsal.cloud.google import iam, operations, secretmanager, services
from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.compute import disks, instances, kinds, places, power, reports, updates
from rehearsal.cloud.google.state import State

Handler = Callable[[State, Call], Json]


def handlers() -> Mapping[str, Handler]:
    """By discovery id. Raises ValueError when two modules claim the same method."""
    table: dict[str, Handler] = {}
    for module in (operations, places, kinds, disks, instances, updates, power, reports, iam, secretmanager, services):
        for method, handler in module.HANDLERS.items():
            if method in table:
                raise ValueError(f"two handlers for {method}")
            table[method] = handler
    return table


BEFORE: Mapping[str, Callable[[State, Call], None]] = {
    f"compute.{scope}Operations.wait": operations.turn_to_end for scope in ("zone", "region", "global")
}
"""What runs before a handler, without the lock."""
