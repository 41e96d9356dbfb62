"""The limits that AWS's models write down and botocore does not check: longest, largest, patterns, enumerations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from rehearsal.cloud.aws import wire
from rehearsal.cloud.aws.call import Call


def broken(call: Call) -> list[str]:
    """What a call's parameters break, in the words that AWS's services use."""
    shape = wire.model(call.service).operation_model(call.operation).input_shape
    return list(_broken(call.params, shape, "")) if shape is not None else []


def _broken(value: Any, shape: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure" and isinstance(value, Mapping):
        for name, inner in value.items():
            if name in shape.members:
                yield from _broken(inner, shape.members[name], f"{path}.{name[0].lower()}{name[1:]}" if path else _first(name))
    elif shape.type_name == "list" and isinstance(value, list):
        yield from _size(len(value), shape, path, value)
        for index, inner in enumerate(value):
            yield from _broken(inner, shape.member, f"{path}.{index + 1}.member")
    elif shape.type_name == "map" and isinstance(value, Mapping):
        yield from _size(len(value), shape, path, "the map")
        for key, inner in value.items():
            yield from _broken(key, shape.key, f"{path}.key")
            yield from _broken(inner, shape.value, f"{path}.{key}")
    elif shape.type_name == "string" and isinstance(value, str):
        yield from _text(value, shape, path)
    elif shape.type_name in ("integer", "long", "float", "double") and not isinstance(value, bool):
        yield from _number(value, shape, path)


def _first(name: str) -> str:
    return name[0].lower() + name[1:]


def _said(value: Any, path: str, rule: str) -> str:
    return f"Value '{value}' at '{path}' failed to satisfy constraint: Member must {rule}"


def _size(count: int, shape: Any, path: str, value: Any) -> Iterator[str]:
    most = shape.metadata.get("max")
    if most is not None and count > most:
        yield _said(value, path, f"have length less than or equal to {most}")


def _text(value: str, shape: Any, path: str) -> Iterator[str]:
    yield from _size(len(value), shape, path, value)
    if shape.enum and value not in shape.enum:
        yield _said(value, path, f"satisfy enum value set: [{', '.join(shape.enum)}]")
    pattern = shape.metadata.get("pattern")
    if pattern and (known := _pattern(pattern)) and known.fullmatch(value) is None:
        yield _said(value, path, f"satisfy regular expression pattern: {pattern}")


def _number(value: float, shape: Any, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and value < least:
        yield _said(value, path, f"have value greater than or equal to {least}")
    if most is not None and value > most:
        yield _said(value, path, f"have value less than or equal to {most}")


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | None:
    """Java's pattern as Python's; None where Python does not have it."""
    try:
        return re.compile(text.replace(r"\p{L}", r"\w").replace(r"\p{Z}", r"\s").replace(r"\p{N}", r"\d"), re.DOTALL)
    except re.error:
        return None
