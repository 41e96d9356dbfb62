"""What a resource would become: its state with the program's inputs laid over it, as Terraform plans it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehearsal.providers.schema import Fields, Kind, Prop, at
from rehearsal.providers.values import UNKNOWN, Values


def plan(fields: Fields, state: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Values:
    """The planned state. Without a state (a create) everything that only the cloud can tell is `UNKNOWN`."""
    new = state is None
    old = state or {}
    return {key: planned(prop, old.get(key), inputs.get(key), new) for key, prop in fields.items()}


def planned(prop: Prop, old: Any, wanted: Any, new: bool = False) -> Any:
    """One planned value: the wanted one, or the old one where the two mean the same or the program does not say."""
    if wanted is UNKNOWN:
        return UNKNOWN
    if wanted is None or prop.output:
        if prop.computed:
            return UNKNOWN if new else old
        return old if _empty(old) else None
    if prop.kind is Kind.BLOCK and isinstance(wanted, Mapping):
        before = old if isinstance(old, Mapping) else {}
        inside_new = new or not isinstance(old, Mapping)
        return {key: planned(sub, before.get(key), wanted.get(key), inside_new) for key, sub in prop.fields.items()}
    if prop.kind is Kind.BLOCKS and isinstance(wanted, list):
        element = Prop(Kind.BLOCK, fields=prop.fields)
        before_all = old if isinstance(old, list) else []
        if prop.unordered and _same_members(element, before_all, wanted):
            return old
        return [planned(element, at(before_all, index), item, new or index >= len(before_all)) for index, item in enumerate(wanted)]
    return old if old is not None and means_the_same(prop, old, wanted) else wanted


def _same_members(element: Prop, old: list[Any], wanted: list[Any]) -> bool:
    """Whether every wanted block is one of the old ones, whatever the order."""
    left = list(old)
    for item in wanted:
        match = next((index for index, before in enumerate(left) if planned(element, before, item) == before), None)
        if match is None:
            return False
        del left[match]
    return not left


def known(value: Any) -> Any:
    """The same value with everything that is not known yet left out."""
    if isinstance(value, Mapping):
        return {key: known(item) for key, item in value.items() if item is not UNKNOWN}
    if isinstance(value, list):
        return [known(item) for item in value if item is not UNKNOWN]
    return value


def means_the_same(prop: Prop, old: Any, wanted: Any) -> bool:
    """Whether two values are one to the cloud (short name and self link; members in any order; 100 and "100")."""
    if wanted is UNKNOWN:
        return False
    if prop.same is not None and isinstance(old, str) and isinstance(wanted, str) and prop.same(old, wanted):
        return True
    if prop.kind is Kind.SET and isinstance(old, list) and isinstance(wanted, list):
        same = prop.same or (lambda one, other: bool(one == other))
        return len(old) == len(wanted) and all(any(same(a, b) for a in old) for b in wanted)
    if isinstance(old, bool) or isinstance(wanted, bool):
        return old is wanted
    if isinstance(old, str | int) and isinstance(wanted, str | int):
        return str(old) == str(wanted)
    return bool(old == wanted)


def _empty(value: Any) -> bool:
    return value in (None, "", 0, False) or value in ([], {})


def refreshed_inputs(fields: Fields, old_inputs: Mapping[str, Any], state: Mapping[str, Any]) -> Values:
    """The inputs after a refresh: what the program said where the cloud still agrees, the cloud's value where not."""
    inputs: Values = {}
    for key, said in old_inputs.items():
        prop = fields.get(key)
        if prop is None:
            if key.startswith("__"):
                inputs[key] = said
            continue
        now = state.get(key)
        if prop.kind is Kind.BLOCK and isinstance(said, Mapping) and isinstance(now, Mapping):
            inputs[key] = refreshed_inputs(prop.fields, said, now)
        elif prop.kind is Kind.BLOCKS and isinstance(said, list) and isinstance(now, list) and len(said) == len(now):
            inputs[key] = [refreshed_inputs(prop.fields, a, b) for a, b in zip(said, now, strict=True)]
        elif now is None or (_empty(now) and not _empty(said)):
            if prop.kind is Kind.VALUE and prop.zero is None:
                inputs[key] = said  # the cloud does not tell (a switch of the provider's own)
        else:
            inputs[key] = said if means_the_same(prop, now, said) else now
    return inputs


def imported_inputs(fields: Fields, state: Mapping[str, Any]) -> Values:
    """The inputs of something that was found, not made: every value of its own that is not the cloud's nothing."""
    inputs: Values = {"__defaults": []}
    for key, prop in fields.items():
        value = state.get(key)
        if value is None or prop.output or _empty(value) or value == prop.default:
            continue
        if prop.kind is Kind.BLOCK:
            inputs[key] = imported_inputs(prop.fields, value)
        elif prop.kind is Kind.BLOCKS:
            inputs[key] = [imported_inputs(prop.fields, item) for item in value]
        elif not prop.computed or prop.replace:
            inputs[key] = value
    return inputs
