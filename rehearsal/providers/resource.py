"""One entry of a provider's table of resources, and what its functions are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rehearsal.providers.diff import Changes
from rehearsal.providers.schema import Fields
from rehearsal.providers.values import Values

Api = TypeVar("Api")


class ProviderError(Exception):
    """A call that failed, in the official provider's words."""


class Incomplete(ProviderError):
    """A create that failed after the thing was there. The engine keeps it, marked as not initialised.

    `told` is what is known of it so far, by property name; the rest is taken from the plan.
    """

    def __init__(self, identifier: str, told: Values, why: str) -> None:
        self.identifier = identifier
        self.told = told
        super().__init__(why)


@dataclass(frozen=True)
class Call(Generic[Api]):
    """What a resource's function works with: the cloud, and how long it may take (seconds on the given clock)."""

    api: Api
    timeout: float


@dataclass(frozen=True)
class Change:
    """An update: the state before, what it becomes, and the paths that differ."""

    state: Mapping[str, Any]
    planned: Mapping[str, Any]
    paths: Changes

    def beyond(self, updates: frozenset[str]) -> list[str]:
        """The changed paths that lie outside these properties."""
        return sorted(path for path in self.paths if not any(re.match(rf"{re.escape(key)}(?![\w-])", path) for key in updates))

    def touches(self, *prefixes: str) -> bool:
        """Whether anything at or below one of these properties changes."""
        return any(path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")) for path in self.paths for prefix in prefixes)


@dataclass(frozen=True)
class Resource(Generic[Api]):
    """A resource type: its properties as a table, and the functions that make, read, change and delete it.

    `create` and `read` return what the cloud tells (by property name); what they leave out is kept from the plan or
    the state before. `read` returns None for a thing that is gone. `check` adjusts inputs before they are checked,
    `customize` a plan, `extra` the changes.
    """

    token: str
    fields: Fields
    create: Callable[[Call[Api], Values], tuple[str, Values]]
    read: Callable[[Call[Api], str, Mapping[str, Any]], Values | None]
    delete: Callable[[Call[Api], str, Mapping[str, Any]], None]
    update: Callable[[Call[Api], str, Change], Values] | None = None
    updates: frozenset[str] = frozenset()  # the properties that `update` brings into force; no other changes in place
    timeouts: Mapping[str, float] = field(default_factory=dict)  # seconds, by create, read, update, delete
    schema_version: int = 0
    import_state: Callable[[Call[Api], str], Values] | None = None  # what an id alone tells
    check: Callable[[Api, Values], Values] | None = None
    customize: Callable[[Api, Mapping[str, Any] | None, Values], Values] | None = None
    extra: Callable[[Api, Mapping[str, Any], Mapping[str, Any], Changes], Changes] | None = None


@dataclass(frozen=True)
class Function(Generic[Api]):
    """A data source: arguments to result, in one call."""

    token: str
    call: Callable[[Api, Mapping[str, Any]], Values]


def at_import(**values: Any) -> Callable[[Call[Any], str], Values]:
    """The state before the first read of something found: the provider's own switches, which no cloud tells."""

    def state(call: Call[Any], identifier: str) -> Values:
        return dict(values)

    return state
