"""What a cloud's own words mean: rows in a TOML file beside the cloud's client."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from verdict.errors import BadConfig, CannotTell, FlexserveError, Gone, NoAccess, NoCapacity, TimedOut

CLASSES: dict[str, type[FlexserveError]] = {
    c.kind: c for c in (NoCapacity, NoAccess, TimedOut, BadConfig, Gone, CannotTell, FlexserveError)
}
LONGEST = 400


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


class Meanings:
    """The rows of `PACKAGE/errors.toml`; the first that fits is taken."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All of them."""
        document = tomllib.loads(files(self._package).joinpath("errors.toml").read_text(encoding="utf-8"))
        return tuple(Row(**row) for row in document["error"])

    def meaning(self, text: str, code: str = "") -> Row | None:
        """The row for the cloud's words; None for words that no row knows. A code is surer than a text, so it is tried first."""
        by_code = next((row for row in self.rows if code and row.fits("", code)), None)
        return by_code or next((row for row in self.rows if row.fits(text, "")), None)

    def explain(self, text: str, code: str = "") -> FlexserveError | None:
        """The typed error for the cloud's words, or None."""
        row = self.meaning(text, code)
        return CLASSES[row.kind](row.what, why=sentence(text), way_out=row.way_out) if row else None


def sentence(text: str) -> str:
    """One line of the cloud's words."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
