"""Checks that several kinds of compute resource share."""

from __future__ import annotations

import re

from rehearsal.cloud.google.call import Call, Json, scope_of
from rehearsal.cloud.google.errors import exists, invalid, not_found
from rehearsal.cloud.google.state import State

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,128}")
METADATA_VALUE_BYTES = 262_144
METADATA_TOTAL_BYTES = 512 * 1024


def own_project(state: State, call: Call) -> None:
    """The project is ours, or it is not there."""
    if call.params.get("project") not in (state.project, state.number):
        raise not_found(f"projects/{call.params.get('project')}")


def place(state: State, call: Call) -> None:
    """Zone or region of the call exist."""
    zone, region = call.params.get("zone"), call.params.get("region")
    if zone is not None and zone not in state.inventory.zones:
        raise invalid("zone", zone, "Unknown zone.")
    if region is not None and region not in state.inventory.regions:
        raise invalid("region", region, "Unknown region.")


def new_path(state: State, call: Call, collection: str) -> str:
    """Where the resource in the body will be. Raises for a name that is missing, malformed or taken."""
    name = call.body.get("name", "")
    if not NAME.fullmatch(str(name)):
        why = f"Must be a match of regex '(?:{NAME.pattern})'"
        raise invalid("resource.name", name, why)
    path = f"{scope_of(call.params)}/{collection}/{name}"
    if path in state.compute:
        raise exists(path)
    return path


def find(state: State, path: str) -> Json:
    """The stored resource, or compute's 404."""
    if path not in state.compute:
        raise not_found(path)
    return state.compute[path]


def labels(value: object) -> None:
    """Label keys and values are what Google takes (their international letters left out)."""
    for key, text in (value or {}).items() if isinstance(value, dict) else ():
        if not LABEL_KEY.fullmatch(key):
            raise invalid(
                "resource.labels",
                "",
                f"Label key '{key}' violates format constraints. {_rule('key', 'start with a lowercase character, can ')}",
            )
        if not LABEL_VALUE.fullmatch(str(text)):
            raise invalid("resource.labels", "", f"Label value '{text}' violates format constraints. {_rule('value', '')}")


def _rule(what: str, start: str) -> str:
    return (
        f"The {what} must {start}only contain lowercase letters, numeric characters, underscores and dashes."
        f" The {what} can be at most 63 characters long. International characters are allowed."
    )


def metadata(value: Json) -> None:
    """Keys, sizes and uniqueness of metadata items."""
    total, seen = 0, set()
    for index, item in enumerate(value.get("items", [])):
        key, size = str(item.get("key", "")), len(str(item.get("value", "")).encode())
        if not METADATA_KEY.fullmatch(key):
            raise invalid(f"resource.metadata.items[{index}].key", key, f"Must be a match of regex '{METADATA_KEY.pattern}'")
        if key in seen:
            raise invalid("resource.metadata", key, f"Metadata has duplicate key: {key}")
        if size > METADATA_VALUE_BYTES:
            raise invalid(
                f"resource.metadata.items[{index}].value",
                key,
                f"Value for metadata key is too long: {size} bytes, at most {METADATA_VALUE_BYTES}.",
            )
        seen.add(key)
        total += size + len(key)
    if total > METADATA_TOTAL_BYTES:
        raise invalid("resource.metadata", total, f"Total metadata size is too large, at most {METADATA_TOTAL_BYTES} bytes.")
