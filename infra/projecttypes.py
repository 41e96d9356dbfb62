"""Which values a key of `Pulumi.yaml` with a `type:` may have, as Pulumi has it. Pure.

Source: Pulumi 3.274, `sdk/go/common/workspace/project.go` (`ValidateConfigValue`) and `project.json`. What Pulumi itself did is in
`tests/plan/project_config.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TYPES = ("string", "integer", "boolean", "array", "object")
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = 2**63


def declared(said: Mapping[str, Any]) -> bool:
    """Whether a declaration's own words are of the kinds that Pulumi's schema wants."""
    return (
        said.get("type", "string") in TYPES
        and isinstance(said.get("description", ""), str)
        and isinstance(said.get("secret", False), bool)
        and ("items" not in said or _items(said["items"]))
    )


def _items(items: Any) -> bool:
    if not isinstance(items, Mapping) or not isinstance(items.get("type"), str) or items["type"] not in TYPES:
        return False
    if "items" in items:
        return _items(items["items"])
    return bool(items["type"] != "array")


def named(said: Mapping[str, Any]) -> str:
    """`array<integer>`."""
    inner = said.get("items")
    return f"array<{named(inner)}>" if said["type"] == "array" and isinstance(inner, Mapping) else str(said["type"])


def fits(said: Mapping[str, Any], value: Any) -> bool:
    """Whether a value, as YAML has it, is of the type that `said` declares."""
    kind = said["type"]
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool) or value in ("true", "false")
    if kind == "integer":
        return _is_whole(value)
    if kind == "object":
        return isinstance(value, Mapping)
    items = said.get("items")
    return isinstance(value, list) and isinstance(items, Mapping) and all(fits(items, item) for item in value)


def fits_as_text(said: Mapping[str, Any], value: Any) -> bool:
    """The same for a key's whole value: outside of lists and groups of keys Pulumi has text only."""
    return fits(said, value if isinstance(value, Mapping | list) else text_of(value))


def text_of(value: Any) -> str:
    """A value as Pulumi writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else str(value)


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return isinstance(value, int) or value.is_integer()
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None and -_INT64 <= int(value) < _INT64
