"""A secret's value is in no log: a payload is shown as its hash."""

from __future__ import annotations

import hashlib
from typing import Any


def redacted(value: object) -> Any:
    """A copy in which every `payload.data` is `sha256:...`."""
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {k: redacted(v) for k, v in value.items()}
    payload = copy.get("payload")
    if isinstance(payload, dict) and isinstance(payload.get("data"), str):
        copy["payload"] = payload | {"data": "sha256:" + hashlib.sha256(payload["data"].encode()).hexdigest()}
    return copy
