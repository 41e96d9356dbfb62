"""What a cloud's own words mean: rows in a TOML file beside the cloud's client."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from verdict.errors import BadConfig, CannotTell, FlexserveError, Gone, NoAccess, NoCapacity, TimedOut

CLASSES: dict[str, type[FlexserveError]] = {
    c.kind: c for c in (NoCapacity, NoAccess, TimedOut, BadConfig, Gone, CannotTell, FlexserveError)
}
LONGEST = 400
_WRAPPED = re.compile(
    r"(\s*(sdk-v2/\S+ sdk\.helper_schema:|(creating|updating|deleting|refreshing) urn:\S+:|\d+ errors? occurred:\s*\*)\s*)+"
)
_PROVIDER = re.compile(r":? provider=\S+@[\w.-]+$")


@dataclass(frozen=True)
class Row:
    """One meaning. `code` and `text` are regular expressions; either is enough. `elsewhere`: as in `FlexserveError`."""

    name: str
    kind: str
    what: str
    way_out: str
    source: str
    code: str = ""
    text: str = ""
    elsewhere: str = ""

    def fits(self, text: str, code: str) -> bool:
        """Whether these are the words."""
        return bool((self.code and code and re.fullmatch(self.code, code)) or (self.text and text and re.search(self.text, text)))

    def error(self, why: str) -> FlexserveError:
        """The typed error; `why` is what the cloud said."""
        made = CLASSES[self.kind](self.what, why=why, way_out=self.way_out)
        made.elsewhere = self.elsewhere
        return made


class Meanings:
    """The rows of `PACKAGE/errors.toml`; the first that fits is taken. `said`: the cloud's own words out of a client's."""

    def __init__(self, package: str, said: Callable[[str], str]) -> None:
        self._package, self._said = package, said

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
        return row.error(self._said(text)) if row else None


def sentence(text: str) -> str:
    """One line of the cloud's words, without what Pulumi and its providers put around them."""
    line = _PROVIDER.sub("", " ".join(_WRAPPED.sub("", text, count=1).split()))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
