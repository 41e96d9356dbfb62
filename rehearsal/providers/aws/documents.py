"""Policy documents: JSON that says the same may be written in many ways."""

from __future__ import annotations

import json
from typing import Any, Final

from rehearsal.providers.resource import ProviderError

_LISTS: Final = frozenset(
    {"Action", "AWS", "CanonicalUser", "Federated", "NotAction", "NotResource", "Resource", "Service", "Statement"}
)


def same_document(one: str, other: str) -> bool:
    """Whether two policies mean the same: order of keys, and a single element written without its list, do not count."""
    try:
        return bool(_plain(json.loads(one)) == _plain(json.loads(other)))
    except ValueError:
        return one == other


def _plain(value: Any, key: str = "") -> Any:
    if key in _LISTS and not isinstance(value, list):
        value = [value]
    if isinstance(value, dict):
        return {name: _plain(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return sorted(items, key=str) if key in _LISTS else items
    return value


def told_document(found: Any, before: Any) -> str:
    """The document as the state keeps it: as written before where it still means the same, else as the cloud has it."""
    text = found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))
    return before if isinstance(before, str) and same_document(before, text) else text


def normalised(document: str) -> str:
    """As sent: without the blanks between the parts. Raises `ProviderError` when it is no JSON."""
    try:
        return json.dumps(json.loads(document), separators=(",", ":"))
    except ValueError as error:
        raise ProviderError(f"policy contains an invalid JSON: {error}") from error
