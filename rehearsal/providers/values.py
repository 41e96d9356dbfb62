"""Pulumi's wire values and plain Python: secrets are unwrapped on the way in, marked on the way out.

Numbers without a fraction come in as `int`. A value that the engine does not know yet is `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from google.protobuf import struct_pb2

SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_UNKNOWN_STRING: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


class _Unknown(Enum):
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown.UNKNOWN
"""A value that is known only after something has been created."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Secret:
    """A value that the engine must store encrypted and print as `[secret]`."""

    value: Any


def decode(struct: struct_pb2.Struct | None) -> Values:
    """The plain values of a struct; an absent struct is empty."""
    return {key: _decode(value) for key, value in struct.fields.items()} if struct is not None else {}


def _decode(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        fields = value.struct_value.fields
        mark = fields[SIGNATURE].string_value if SIGNATURE in fields else ""
        if mark == SECRET:
            return _decode(fields["value"])
        if mark == OUTPUT:
            return _decode(fields["value"]) if "value" in fields else UNKNOWN
        return decode(value.struct_value)
    if kind == "list_value":
        return [_decode(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "string_value":
        return UNKNOWN if value.string_value == _UNKNOWN_STRING else value.string_value
    return value.bool_value if kind == "bool_value" else None


def encode(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """The struct of plain values, `Secret` and `UNKNOWN` among them."""
    struct = struct_pb2.Struct()
    for key, value in values.items():
        struct.fields[key].CopyFrom(_encode(value))
    return struct


def _encode(value: Any) -> struct_pb2.Value:
    if isinstance(value, Secret):
        return struct_pb2.Value(struct_value=encode({SIGNATURE: SECRET, "value": value.value}))
    if value is UNKNOWN:
        return struct_pb2.Value(string_value=_UNKNOWN_STRING)
    if isinstance(value, Mapping):
        return struct_pb2.Value(struct_value=encode(value))
    if isinstance(value, list | tuple):
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[_encode(item) for item in value]))
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, int | float):
        return struct_pb2.Value(number_value=value)
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    return struct_pb2.Value(string_value=str(value))


def has_unknown(value: Any) -> bool:
    """Whether anything in it is not known yet."""
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_unknown(item) for item in value)
    return value is UNKNOWN
