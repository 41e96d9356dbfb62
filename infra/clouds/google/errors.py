"""What Google's own words mean: error bodies, operation errors and what Pulumi prints of them. The rows are in `errors.toml`."""

from __future__ import annotations

import json
import re
from typing import Any

from infra.clouds.meanings import CLASSES, Meanings, Row, sentence
from verdict.errors import FlexserveError

_CALLED = re.compile(r"Error \w+ing [\w ]+?: (?:googleapi: Error \d+: )?")
_REASON = re.compile(r"\.?, [a-zA-Z]+$")


def said(text: str) -> str:
    """Google's own words, out of what the provider prints around them."""
    line = sentence(text)
    return _REASON.sub("", line[len(found[0]) :]) if (found := _CALLED.match(line)) else line


_GOOGLE = Meanings("infra.clouds.google", said)


def rows() -> tuple[Row, ...]:
    """All meanings; the first that fits is taken."""
    return _GOOGLE.rows


def meaning(text: str, code: str = "") -> Row | None:
    """The row for the cloud's words; None for words that no row knows. A code is surer than a text, so it is tried first."""
    return _GOOGLE.meaning(text, code)


def explain(text: str, code: str = "") -> FlexserveError | None:
    """The typed error for the cloud's words, or None."""
    return _GOOGLE.explain(text, code)


def from_words(text: str, code: str = "") -> FlexserveError:
    """The same, and a plain error with the cloud's own words when no row knows them."""
    return explain(text, code) or FlexserveError("Google Cloud refused", why=" ".join(p for p in (code, sentence(text)) if p))


def from_answer(status: int, body: bytes) -> FlexserveError:
    """The error of an HTTP answer: its message, and the reasons that Google gives beside it."""
    try:
        error: Any = json.loads(body)["error"]
        message = str(error.get("message", ""))
        reasons = [str(e.get("reason", "")) for e in error.get("errors") or []]
        reasons += [str(d.get("reason", "")) for d in error.get("details") or [] if "reason" in d]
    except (ValueError, KeyError, TypeError, AttributeError):
        message, reasons = body[:300].decode(errors="replace"), []
    row = meaning(message) or next((r for reason in (*reasons, str(status)) if (r := meaning("", reason))), None)
    if row is None:
        return FlexserveError(f"Google Cloud answered {status}", why=sentence(message))
    return row.error(sentence(message))


__all__ = ["CLASSES", "Row", "explain", "from_answer", "from_words", "meaning", "rows", "said"]
