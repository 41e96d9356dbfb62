"""A secret's value is in no log: it is shown as its hash."""

from __future__ import annotations

import hashlib
from typing import Any

HIDDEN = frozenset({"SecretString", "SecretBinary", "TokenValue", "SecretAccessKey", "SessionToken", "Body"})
"""Members whose value is never logged. `Body` is an object of S3: it may be large, and is not ours to show."""


def redacted(value: object) -> Any:
    """A copy that json can write, in which hidden members are `sha256:...` and bytes their length."""
    if isinstance(value, dict):
        return {str(k): _hash(v) if k in HIDDEN and v else redacted(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _hash(value: object) -> str:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return "sha256:" + hashlib.sha256(raw).hexdigest()
