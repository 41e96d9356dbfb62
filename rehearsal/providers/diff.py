"""What changes between a state and a plan, path by path, and whether the resource has to be replaced for it.

The rules are those of the official bridge's detailed diff: a property that one side lacks is an add or a delete of the
whole, one that only the cloud will know is an update, lists of plain values are compared as edits, sets by membership,
and a replacement that no path accounts for is put down to `__meta`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from rehearsal.providers.schema import Fields, Kind, Prop, at
from rehearsal.providers.values import UNKNOWN

META: Final = "__meta"


class Change(Enum):
    """One path's change, in the words of the engine's previews."""

    ADD = "add"
    ADD_REPLACE = "add-replace"
    DELETE = "delete"
    DELETE_REPLACE = "delete-replace"
    UPDATE = "update"
    UPDATE_REPLACE = "update-replace"

    @property
    def replaces(self) -> bool:
        """Whether the resource must be replaced for it."""
        return self.value.endswith("-replace")

    def replacing(self) -> Change:
        """The same change, needing a replacement."""
        return self if self.replaces else Change(f"{self.value}-replace")


Changes = dict[str, Change]


def diff(fields: Fields, state: Mapping[str, Any], plan: Mapping[str, Any], inputs: Mapping[str, Any]) -> Changes:
    """Every path that changes. `inputs` give the positions of set members, as the program wrote them."""
    changes: Changes = {}
    for key, prop in fields.items():
        changes |= _changes(prop, key, state.get(key), plan.get(key), inputs.get(key))
    return changes


def must_replace(changes: Changes) -> Changes:
    """The same changes, of which one at least needs a replacement."""
    if any(change.replaces for change in changes.values()):
        return changes
    return changes | {META: Change.UPDATE_REPLACE}


def _changes(prop: Prop, path: str, old: Any, new: Any, said: Any) -> Changes:
    if old is None and new is None:
        return {}
    if old is None or new is None or new is UNKNOWN:
        change = Change.ADD if old is None else Change.DELETE if new is None else Change.UPDATE
        value = old if new is None or new is UNKNOWN else new
        return {path: change.replacing() if _needs_replacement(prop, value) else change}
    if prop.kind is Kind.BLOCK and isinstance(old, Mapping) and isinstance(new, Mapping):
        said = said if isinstance(said, Mapping) else {}
        changes: Changes = {}
        for key, sub in prop.fields.items():
            changes |= _changes(sub, f"{path}.{key}", old.get(key), new.get(key), said.get(key))
        return changes
    if prop.kind is Kind.BLOCKS:
        return _elements(prop, path, old, new, said)
    if prop.kind is Kind.MAP and isinstance(old, Mapping) and isinstance(new, Mapping):
        plain = Prop(replace=prop.replace)
        changes = {}
        for key in sorted({*old, *new}):
            changes |= _changes(plain, _below(path, key), old.get(key), new.get(key), None)
        return changes
    if prop.kind is Kind.LIST:
        return _marked(prop, _edits(path, old, new))
    if prop.kind is Kind.SET:
        return _marked(prop, _membership(prop, path, old, new, said))
    return {} if old == new else _marked(prop, {path: Change.UPDATE})


def _elements(prop: Prop, path: str, old: Sequence[Any], new: Sequence[Any], said: Any) -> Changes:
    element = Prop(Kind.BLOCK, replace=prop.replace, fields=prop.fields)
    said = said if isinstance(said, list) else []
    changes: Changes = {}
    for index in range(max(len(old), len(new))):
        changes |= _changes(element, f"{path}[{index}]", at(old, index), at(new, index), at(said, index))
    return changes


def _membership(prop: Prop, path: str, old: Sequence[Any], new: Sequence[Any], said: Any) -> Changes:
    added, removed = [item for item in new if item not in old], [item for item in old if item not in new]
    if not added and not removed:
        return {}
    positions = said if isinstance(said, list) else []
    if prop.whole or any(item not in positions for item in added):
        return {path: Change.UPDATE}
    changes: Changes = {f"{path}[{old.index(item)}]": Change.DELETE for item in removed}
    for item in added:
        key = f"{path}[{positions.index(item)}]"
        changes[key] = Change.UPDATE if key in changes else Change.ADD
    return changes


def _edits(path: str, old: Sequence[Any], new: Sequence[Any]) -> Changes:
    kept_old, kept_new = _common(old, new)
    changes: Changes = {f"{path}[{index}]": Change.DELETE for index in range(len(old)) if index not in kept_old}
    for index in range(len(new)):
        if index not in kept_new:
            key = f"{path}[{index}]"
            changes[key] = Change.UPDATE if key in changes else Change.ADD
    return changes


def _common(old: Sequence[Any], new: Sequence[Any]) -> tuple[set[int], set[int]]:
    """Positions of a longest common subsequence, in each."""
    best: list[list[tuple[tuple[int, int], ...]]] = [[()] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, one in enumerate(old):
        for j, other in enumerate(new):
            longest = max(best[i][j + 1], best[i + 1][j], key=len)
            best[i + 1][j + 1] = (*best[i][j], (i, j)) if one == other else longest
    pairs = best[-1][-1]
    return {i for i, _ in pairs}, {j for _, j in pairs}


def _marked(prop: Prop, changes: Changes) -> Changes:
    return {path: change.replacing() for path, change in changes.items()} if prop.replace else changes


def _needs_replacement(prop: Prop, value: Any) -> bool:
    if prop.replace:
        return True
    if prop.kind is Kind.BLOCK and isinstance(value, Mapping):
        return any(_needs_replacement(sub, value[key]) for key, sub in prop.fields.items() if _there(value.get(key)))
    if prop.kind is Kind.BLOCKS and isinstance(value, Sequence):
        return any(_needs_replacement(Prop(Kind.BLOCK, fields=prop.fields), item) for item in value)
    return False


def _there(value: Any) -> bool:
    return value not in (None, "", 0, False, UNKNOWN)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_$][\w$]*", key) else f'{path}["{key}"]'
