"""What a role may do: IAM's evaluation of identity policies, as far as the local cloud needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

Document = Mapping[str, Any]
OPERATORS = ("StringEquals", "StringLike", "StringNotEquals", "ArnEquals", "ArnLike", "Null", "Bool", "DateGreaterThanEquals")
"""Condition operators that are evaluated. Any other makes the statement an error, not a grant."""


def allowed(documents: Iterable[Document], action: str, resource: str, context: Mapping[str, str] = {}) -> bool:
    """Whether the policies together allow it: one allow, and no deny.

    Raises ValueError for a condition that is not evaluated here, in a statement that would match.
    """
    effects = [
        s["Effect"] for document in documents for s in _list(document.get("Statement")) if _applies(s, action, resource, context)
    ]
    return "Allow" in effects and "Deny" not in effects


def _applies(statement: Document, action: str, resource: str, context: Mapping[str, str]) -> bool:
    if "Action" in statement and not any(_like(p, action, fold=True) for p in _list(statement["Action"])):
        return False
    if "NotAction" in statement and any(_like(p, action, fold=True) for p in _list(statement["NotAction"])):
        return False
    if "Resource" in statement and not any(_like(p, resource) for p in _list(statement["Resource"])):
        return False
    if "NotResource" in statement and any(_like(p, resource) for p in _list(statement["NotResource"])):
        return False
    return all(
        _holds(operator, key, _list(wanted), context)
        for operator, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )


def _holds(operator: str, key: str, wanted: list[Any], context: Mapping[str, str]) -> bool:
    name = operator.removesuffix("IfExists")
    if name not in OPERATORS:
        raise ValueError(f"the condition operator {operator} is not evaluated here")
    have = next((v for k, v in context.items() if k.lower() == key.lower()), None)
    if name == "Null":
        return str(wanted[0]).lower() == str(have is None).lower()
    if have is None:
        return operator.endswith("IfExists") or name == "StringNotEquals"
    if name in ("StringLike", "ArnLike", "ArnEquals"):
        return any(_like(str(w), have) for w in wanted)
    if name == "StringNotEquals":
        return all(have != str(w) for w in wanted)
    if name == "DateGreaterThanEquals":
        return any(datetime.fromisoformat(have) >= datetime.fromisoformat(str(w)) for w in wanted)
    if name == "Bool":
        return any(have.lower() == str(w).lower() for w in wanted)
    return any(have == str(w) for w in wanted)


def _like(pattern: str, value: str, *, fold: bool = False) -> bool:
    return _compiled(pattern, fold).fullmatch(value) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str, fold: bool) -> re.Pattern[str]:
    text = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    return re.compile(text, re.DOTALL | (re.IGNORECASE if fold else 0))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def trusts(document: Document, service: str, context: Mapping[str, str] = {}) -> bool:
    """Whether a role's trust policy lets a service (`ec2.amazonaws.com`) assume it."""
    for statement in _list(document.get("Statement")):
        principal = statement.get("Principal", {})
        named = _list(principal.get("Service")) if isinstance(principal, dict) else []
        if statement.get("Effect") == "Allow" and service in named and _applies(statement, "sts:AssumeRole", "*", context):
            return True
    return False
