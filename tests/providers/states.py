"""States as the engine keeps them, in a normal form, and their comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.providers.deviations import Deviation, leaf_changes

SECRET_MARK = "4dabf18193072939515e22adb298388d"
AUTONAME = re.compile(r"-[0-9a-f]{7}\b")
CLOUD_SAYS = {
    "createTime", "creationTimestamp", "etag", "instanceId", "labelFingerprint", "metadataFingerprint", "natIp",
    "networkId", "networkIp", "numericId", "subnetworkId", "tagsFingerprint", "uniqueId", "updateTime",
}  # fmt: skip
"""Leaves that the cloud makes up: they must be there and of the recorded type."""


def normal(value: Any, base: str = "") -> Any:
    """Secrets, made-up values, drawn names and the cloud's address as placeholders."""
    if isinstance(value, Mapping):
        if SECRET_MARK in value:
            return "<secret>"
        return {
            key: f"<{type(item).__name__}>" if key in CLOUD_SAYS and item else normal(item, base) for key, item in value.items()
        }
    if isinstance(value, list):
        return [normal(item, base) for item in value]
    if isinstance(value, str):
        return AUTONAME.sub("-AUTO", value.replace(base, "BASE") if base else value)
    return value


def compare(kind: str, recorded: Mapping[str, Any], ours: Mapping[str, Any], base: str) -> list[Deviation]:
    """Id, inputs, outputs and which of them are secret, leaf by leaf."""
    deviations = []
    for part in ("id", "inputs", "outputs"):
        one, other = normal(recorded[part]), normal(ours[part], base)
        texts = leaf_changes({part: one}, {part: other})
        deviations += [Deviation("state", kind, text) for text in texts]
    return deviations
