"""Names and tags by which everything of a deployment is found again. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

PREFIX = "fs-"
ID_TAG = "flexserve-id"
EXPIRES_TAG = "flexserve-expires"


def tag(text: str) -> str:
    """The nearest tag value: letters, digits, blanks and `_ . : / = + - @`, at most 256."""
    return re.sub(r"[^\w .:/=+@-]", "-", text)[:256].strip() or "unknown"


def tags(id_: str, owner: str, stack: str, expires: int) -> dict[str, str]:
    """Whose it is, by a random id. `expires`: the end of the window, epoch seconds."""
    return {
        "app": "flexserve",
        ID_TAG: id_,
        "flexserve-owner": tag(owner),
        "flexserve-stack": tag(stack),
        EXPIRES_TAG: str(expires),
    }


def left_by(found: Mapping[str, str], owner: str, stack: str) -> bool:
    """Whether an earlier deployment of this stack and owner made what carries these tags."""
    whose = (found.get("flexserve-stack"), found.get("flexserve-owner"))
    return ours(found) and whose == (tag(stack), tag(owner))


def ours(found: Mapping[str, str]) -> bool:
    """Whether flexserve made it at all."""
    return found.get("app") == "flexserve"


def expiry(found: Mapping[str, str]) -> datetime | None:
    """When the window ends, by the tags; None where they do not say."""
    text = found.get(EXPIRES_TAG, "")
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() else None


def read(pairs: Iterable[Mapping[str, object]] | None) -> dict[str, str]:
    """AWS's list of keys and values as a mapping; most services spell it so."""
    return {str(pair["Key"]): str(pair["Value"]) for pair in pairs or ()}
