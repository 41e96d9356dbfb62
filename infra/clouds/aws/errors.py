"""What AWS's own words mean: API errors, reasons of an instance's state and what Pulumi prints of them. Rows: `errors.toml`."""

from __future__ import annotations

import re

from infra.clouds.meanings import CLASSES, Meanings, Row, sentence
from verdict.errors import FlexserveError

_CODE = re.compile(r"api error ([A-Za-z][\w.]*)|An error occurred \(([\w.]+)\)")
"""How Go's SDK (in what the provider prints) and Python's put the code into the text."""
_SAID = re.compile(
    r"(?:response error StatusCode: \d+, RequestID: [^,]*, (?:HostID: [^,]*, )?(?:api error )?|api error )([A-Za-z][\w.]*): (.*)"
    r"|An error occurred \(([\w.]+)\) when calling the \w+ operation(?: \([^)]*\))?: (.*)",
    re.DOTALL,
)
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+")
"""Only whoever may call sts:DecodeAuthorizationMessage can read it, and it has hundreds of characters."""


def said(text: str) -> str:
    """AWS's own code and message, out of what its clients and the provider print around them: `CODE: MESSAGE`."""
    found = _SAID.search(text)
    code, words = (found[1] or found[3], found[2] or found[4]) if found else ("", text)
    return sentence(_ENCODED.sub("", f"{code}: {words}" if code else words))


_AWS = Meanings("infra.clouds.aws", said)


def rows() -> tuple[Row, ...]:
    """All meanings; the first that fits is taken."""
    return _AWS.rows


def meaning(text: str, code: str = "") -> Row | None:
    """The row for AWS's words; None for words that no row knows. A code is surer than a text; it may stand in the text."""
    return _AWS.meaning(text, code or code_of(text))


def explain(text: str, code: str = "") -> FlexserveError | None:
    """The typed error for AWS's words, or None."""
    return _AWS.explain(text, code or code_of(text))


def from_words(text: str, code: str = "") -> FlexserveError:
    """The same, and a plain error with AWS's own words when no row knows them."""
    return explain(text, code) or FlexserveError("AWS refused", why=" ".join(p for p in (code, said(text)) if p))


def code_of(text: str) -> str:
    """The code that a text holds, or nothing."""
    found = _CODE.search(text)
    return next((group for group in found.groups() if group), "") if found else ""


__all__ = ["CLASSES", "Row", "code_of", "explain", "from_words", "meaning", "rows", "said"]
