"""Trust and policy documents of IAM, as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

VERSION = "2012-10-17"  # of the policy language, the newest that there is


def trust(service: str) -> str:
    """Who may take the role."""
    return document({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})


def allow(actions: str | Sequence[str], resource: str | Sequence[str]) -> dict[str, object]:
    """One statement."""
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def document(*statements: dict[str, object]) -> str:
    """The whole policy."""
    return json.dumps({"Version": VERSION, "Statement": list(statements)}, separators=(",", ":"))
