"""What Google's own words mean: error bodies, operation errors and what Pulumi prints of them. The rows are in `errors.toml`."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from verdict.errors import BadConfig, CannotTell, FlexserveError, Gone, NoAccess, NoCapacity, TimedOut

CLASSES: dict[str, type[FlexserveError]] = {
    c.kind: c for c in (NoCapacity, NoAccess, TimedOut, BadConfig, Gone, CannotTell, FlexserveError)
}


@dataclass(frozen=True)
class Row:
    """One meaning. `code` and `text` are regular expressions; either is enough. `elsewhere`: another zone may help."""

    name: str
    kind: str
    what: str
    way_out: str
    source: str
    code: str = ""
    text: str = ""
    elsewhere: bool = False

    def fits(self, text: str, code: str) -> bool:
        """Whether these are the words."""
        return bool((self.code and code and re.fullmatch(self.code, code)) or (self.text and text and re.search(self.text, text)))


@cache
def rows() -> tuple[Row, ...]:
    """All meanings; the first that fits is taken."""
    document = tomllib.loads(files("infra.clouds.google").joinpath("errors.toml").read_text(encoding="utf-8"))
    return tuple(Row(**row) for row in document["error"])


def meaning(text: str, code: str = "") -> Row | None:
    """The row for the cloud's words; None for words that no row knows. A code is surer than a text, so it is tried first."""
    by_code = next((row for row in rows() if code and row.fits("", code)), None)
    return by_code or next((row for row in rows() if row.fits(text, "")), None)


def explain(text: str, code: str = "") -> FlexserveError | None:
    """The typed error for the cloud's words, or None."""
    row = meaning(text, code)
    return CLASSES[row.kind](row.what, why=_sentence(text), way_out=row.way_out) if row else None


def from_words(text: str, code: str = "") -> FlexserveError:
    """The same, and a plain error with the cloud's own words when no row knows them."""
    return explain(text, code) or FlexserveError("Google Cloud refused", why=" ".join(p for p in (code, _sentence(text)) if p))


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
        return FlexserveError(f"Google Cloud answered {status}", why=_sentence(message))
    return CLASSES[row.kind](row.what, why=_sentence(message), way_out=row.way_out)


def _sentence(text: str) -> str:
    """One line of the cloud's words."""
    line = " ".join(text.split())
    return line if len(line) <= 400 else line[:399] + "…"
