"""What Pulumi's state says of a stack, from a `pulumi stack export` document: its outputs, and what the program keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

STASH = "kept"
STASH_TYPE = "pulumi:index:Stash"
STACK_TYPE = "pulumi:pulumi:Stack"
_MARK, _SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
"""What marks a value as something else than it looks like, and as a secret. Source: Pulumi 3.274, `sdk/go/common/resource/sig`."""


class State(NamedTuple):
    """One look at it.

    `outputs`: what the stack exported, `[secret]` in place of a secret; empty after a failed create. `kept`: what the program keeps
    from the first create on, whatever became of it (`infra.kept.from_state` reads it); empty before, and after a destroy.
    `entries`: how many things an engine would have to look at, begun ones included.
    """

    outputs: Mapping[str, object]
    kept: Mapping[str, object]
    entries: int


def from_export(document: object) -> State:
    """Read the document. A resource that only waits to be deleted counts no more."""
    deployment = _mapping(_mapping(document).get("deployment"))
    resources, begun = _list(deployment.get("resources")), _list(deployment.get("pending_operations"))
    found = [r for r in resources if isinstance(r, Mapping) and not r.get("delete")]
    stack = next((r for r in found if r.get("type") == STACK_TYPE), {})
    stash = next((r for r in found if str(r.get("urn", "")).endswith(f"::{STASH_TYPE}::{STASH}")), {})
    outputs = {str(name): _shown(value) for name, value in _mapping(stack.get("outputs")).items()}
    return State(outputs, _mapping(_mapping(stash.get("outputs")).get("input")), len(resources) + len(begun))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _shown(value: object) -> object:
    """As `pulumi stack output` prints it."""
    if isinstance(value, Mapping):
        return "[secret]" if value.get(_MARK) == _SECRET else {name: _shown(inner) for name, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, list) else value
