"""One request on its way to a handler, and the troubles that may be armed for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """Who asks. The operator has no `scopes` and may do anything; a machine's account needs a binding."""

    email: str
    operator: bool = True
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperationError:
    """How an operation ends that fails: its `error` object and the HTTP status that it records.

    `capacity`: it fails for want of capacity, so a request that may wait is queued instead.
    """

    error: Json
    status: int = 400
    message: str = "BAD REQUEST"
    capacity: bool = False


@dataclass
class Trouble:
    """What goes wrong with the next calls that match, instead of (or on top of) what they would have done.

    `call` is a pattern on the discovery id (`compute.instances.insert`, `secretmanager.*`), `path` a regular
    expression searched in the request's path. `times` counts down; None: for ever. `answer` is an immediate error,
    `operation` lets the call start and its operation fail, `delay_s` lets the operation take that much longer.
    """

    call: str
    path: str = ""
    times: int | None = 1
    answer: Callable[[Call], tuple[int, Json]] | None = None
    operation: Callable[[Call], OperationError] | None = None
    delay_s: float = 0.0
    capacity: bool = False
    """Whether it is a stock-out, which capacity ends."""

    def matches(self, call: Call) -> bool:
        """Whether it is still armed for this call."""
        return self.times != 0 and fnmatchcase(call.id, self.call) and re.search(self.path, call.path) is not None

    def concerns(self, zone: str) -> bool:
        """Whether it is armed for calls in this zone only."""
        return self.path == f"/zones/{zone}/"

    def spend(self) -> None:
        """Count one use."""
        if self.times is not None:
            self.times -= 1


@dataclass(frozen=True)
class Call:
    """A request that Google's document accepts.

    The method's id, values of path and query by their documented names, the body.
    """

    id: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json = field(default_factory=dict)
    caller: Caller = field(default_factory=lambda: Caller("operator@example.com"))
    trouble: Trouble | None = None

    @property
    def verb(self) -> str:
        """The last word of the id: `insert`, `setMetadata`."""
        return self.id.rsplit(".", 1)[-1]

    @property
    def name(self) -> str:
        """The resource's name in the path of a newer API."""
        return self.params.get("name") or self.params.get("resource") or self.params.get("parent") or ""

    def doom(self) -> OperationError | None:
        """The error in which the call's operation has to end, if one is armed."""
        return self.trouble.operation(self) if self.trouble is not None and self.trouble.operation is not None else None

    def delay(self) -> float:
        """Seconds that its operation takes longer."""
        return self.trouble.delay_s if self.trouble is not None else 0.0


def scope_of(params: Mapping[str, str]) -> str:
    """`projects/P/zones/Z`, `projects/P/regions/R` or `projects/P/global` of a compute call."""
    project = f"projects/{params['project']}"
    if "zone" in params:
        return f"{project}/zones/{params['zone']}"
    if "region" in params:
        return f"{project}/regions/{params['region']}"
    return f"{project}/global"
