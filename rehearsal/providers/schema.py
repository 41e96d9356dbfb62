"""What a resource's properties are: a table that Check, Diff and the state are worked out from.

The kinds and marks are the ones Terraform's schemas have, because that is what the official providers are made of:
*computed* (the cloud fills it in when the program does not say), *replace* (a change needs a new resource), a
*default* that Check fills in and lists under `__defaults`, and *same*, which calls two spellings of one thing equal.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from rehearsal.providers.values import UNKNOWN, Values

DEFAULTS: Final = "__defaults"


class Kind(Enum):
    """How a property's value is built and compared."""

    VALUE = "value"
    MAP = "map"  # free keys
    LIST = "list"  # of plain values, in order
    SET = "set"  # of plain values, in no order
    BLOCK = "block"  # one object with fields of its own
    BLOCKS = "blocks"  # a list of such objects


class _Unset(Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET


@dataclass(frozen=True)
class Prop:
    """One property. `zero` is what the state holds when neither program nor cloud gives a value."""

    kind: Kind = Kind.VALUE
    zero: Any = None
    default: Any = UNSET
    computed: bool = False
    output: bool = False  # never an input
    required: bool = False
    replace: bool = False
    secret: bool = False
    autoname: bool = False
    lower: bool = False  # a name that is drawn for it has small letters only
    whole: bool = False  # a set whose elements the cloud spells otherwise than the program: a change is of the whole set
    unordered: bool = False  # blocks that are a set: another order is no change
    same: Callable[[Any, Any], bool] | None = None
    fields: Mapping[str, Prop] = field(default_factory=dict)


Fields = Mapping[str, Prop]


def text(zero: Any = "", **marks: Any) -> Prop:
    """A string; the cloud's "nothing" is the empty string."""
    return Prop(zero=zero, **marks)


def number(zero: Any = 0, **marks: Any) -> Prop:
    """A whole number; the cloud's "nothing" is 0."""
    return Prop(zero=zero, **marks)


def flag(zero: Any = False, **marks: Any) -> Prop:
    """A switch; the cloud's "nothing" is false."""
    return Prop(zero=zero, **marks)


def mapping(zero: Any = None, **marks: Any) -> Prop:
    """Free keys to strings."""
    return Prop(Kind.MAP, zero, **marks)


def items(zero: Any = None, **marks: Any) -> Prop:
    """A list of plain values."""
    return Prop(Kind.LIST, zero, **marks)


def members(zero: Any = None, **marks: Any) -> Prop:
    """A set of plain values."""
    return Prop(Kind.SET, zero, **marks)


def block(fields: Fields, **marks: Any) -> Prop:
    """One object."""
    return Prop(Kind.BLOCK, fields=fields, **marks)


def blocks(fields: Fields, zero: Any = (), **marks: Any) -> Prop:
    """A list of objects."""
    return Prop(Kind.BLOCKS, list(zero) if zero is not None else None, fields=fields, **marks)


def out(prop: Prop | None = None) -> Prop:
    """An output: only ever set by the cloud."""
    return replace(prop or text(), computed=True, output=True)


def unsent(prop: Prop) -> Prop:
    """A property that the state shows and the stand-in does not send: giving it a value of its own is refused."""
    return replace(prop, output=True)


def terraform_order(values: Iterable[str]) -> list[str]:
    """Members of a set in the order in which the official provider sends them: by the CRC-32 of each, as text."""
    return sorted(values, key=lambda value: str(zlib.crc32(value.encode())))


def with_defaults(fields: Fields, given: Mapping[str, Any], name: Callable[[str], str] | None = None) -> Values:
    """The inputs as Check returns them: nulls dropped, defaults filled in and listed.

    `name` makes a name for a property that is named automatically; top level only, and not beside a prefix
    (`namePrefix`) that the cloud or the provider makes one from.
    """
    filled: Values = {}
    defaulted: list[str] = []
    for key, prop in fields.items():
        value = given.get(key)
        if value is None:
            if prop.autoname and name is not None:
                if given.get(f"{key}Prefix") is not None:
                    continue
                value = name(key).lower() if prop.lower else name(key)
            elif prop.default is not UNSET:
                value = prop.default
            else:
                continue
            defaulted.append(key)
        filled[key] = _nested_defaults(prop, value)
    filled[DEFAULTS] = sorted(defaulted)
    return filled


def _nested_defaults(prop: Prop, value: Any) -> Any:
    if value is UNKNOWN:
        return value
    if prop.kind is Kind.BLOCK and isinstance(value, Mapping):
        return with_defaults(prop.fields, value)
    if prop.kind is Kind.BLOCKS and isinstance(value, Sequence):
        return [with_defaults(prop.fields, item) if isinstance(item, Mapping) else item for item in value]
    return value


def unexpected(fields: Fields, given: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    """Inputs that the table does not know or that would have no effect, and required ones that are missing: (path, why)."""
    wrong = [
        (f"{path}{key}", "is not in this stand-in's table of inputs")
        for key, value in given.items()
        if key != DEFAULTS and value is not None and (key not in fields or _has_no_effect(fields[key], value))
    ]
    for key, prop in fields.items():
        value = given.get(key)
        if prop.required and value is None:
            wrong.append((f"{path}{key}", "is required"))
        elif prop.kind is Kind.BLOCK and isinstance(value, Mapping):
            wrong += unexpected(prop.fields, value, f"{path}{key}.")
        elif prop.kind is Kind.BLOCKS and isinstance(value, Sequence):
            for index, item in enumerate(value):
                wrong += unexpected(prop.fields, item, f"{path}{key}[{index}].") if isinstance(item, Mapping) else []
    return wrong


def _has_no_effect(prop: Prop, value: Any) -> bool:
    return prop.output and value not in (prop.zero, prop.default)


def complete(fields: Fields, known: Mapping[str, Any], planned: Mapping[str, Any] | None = None) -> Values:
    """A whole state: what is `known` from the cloud, else what was planned, else the property's zero."""
    planned = planned or {}
    return {key: _complete(prop, key in known, known.get(key), planned.get(key)) for key, prop in fields.items()}


def _complete(prop: Prop, is_known: bool, known: Any, planned: Any) -> Any:
    if planned is UNKNOWN:
        planned = None
    if prop.kind is Kind.BLOCK and isinstance(known, Mapping):
        return complete(prop.fields, known, planned)
    if prop.kind is Kind.BLOCKS and isinstance(known, Sequence):
        before = list(planned) if isinstance(planned, Sequence) else []
        return [complete(prop.fields, item, at(before, index) or {}) for index, item in enumerate(known)]
    if known is not None:
        return known
    if not is_known and planned is not None:
        return complete(prop.fields, {}, planned) if prop.kind is Kind.BLOCK else planned
    return prop.zero


def at(values: Sequence[Any], index: int) -> Any:
    """The element, or None past the end."""
    return values[index] if index < len(values) else None
