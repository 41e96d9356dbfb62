"""The log of every request a local cloud answered."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Request:
    """One request and what came of it.

    `accepted`: the cloud's own description of its API knows the method, its parameters and its body.
    `complaints` are the violations of the request, `own_errors` those of our answer: a local cloud that answers what
    the real one cannot answer is wrong, and tests look here. `actions` are the permissions that an operator needed for it,
    where the local cloud tells them. `bearer` says whether there was a token, never which.
    """

    at: float
    api: str
    method: str
    path: str
    query: Mapping[str, str]
    body: object
    status: int
    operation: str
    bearer: bool
    accepted: bool
    answer: object = None
    complaints: Sequence[str] = ()
    own_errors: Sequence[str] = field(default=())
    actions: Sequence[str] = field(default=())


class RequestLog:
    """Append-only and thread-safe."""

    def __init__(self) -> None:
        self._entries: list[Request] = []
        self._lock = threading.Lock()

    def add(self, request: Request) -> None:
        """Append one."""
        with self._lock:
            self._entries.append(request)

    def entries(self) -> Sequence[Request]:
        """All so far, in the order in which they were answered."""
        with self._lock:
            return tuple(self._entries)

    def as_mappings(self) -> Sequence[Mapping[str, object]]:
        """The contract's form."""
        return tuple(asdict(entry) for entry in self.entries())

    def clear(self) -> None:
        """Forget all (between the steps of a comparison)."""
        with self._lock:
            self._entries.clear()
