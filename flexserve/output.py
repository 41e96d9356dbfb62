"""Where a command's words go: one JSON document or plain text on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from verdict.errors import FlexserveError

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Output:
    """What a command prints through. `as_json`: stdout gets one document and no text; with `lines` one event a line."""

    def __init__(self, as_json: bool = False, lines: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json, self.lines = as_json, lines
        self.out, self.err = out or sys.stdout, err or sys.stderr
        self._line_open = False

    def result(self, document: Mapping[str, object], text: str) -> None:
        """The command's result: the document for programs, the text for people."""
        self.clear()
        print(dump(document, self.out) if self.as_json else text, file=self.out, flush=True)

    def text(self, text: str, end: str = "\n") -> None:
        """Raw text on stdout (a log)."""
        print(text, end=end, file=self.out, flush=True)

    def exact(self, text: str) -> None:
        """Text on stdout byte for byte, in UTF-8 whatever the terminal's encoding (a script, a manifest)."""
        self.out.flush()
        self.out.buffer.write(text.encode())
        self.out.flush()

    def say(self, text: str) -> None:
        """A line of progress or a remark, on stderr. Nobody may read it any more (`| tee`, a closed terminal): work goes on."""
        self.clear()
        self._tell(f"{text}\n")

    def live(self, text: str) -> None:
        """A line that the next one replaces; only on a terminal, nothing elsewhere."""
        if self.interactive:
            self._tell(f"\r\033[K{text[: columns(self.err) - 1]}")
            self._line_open = True

    def clear(self) -> None:
        """Take the live line away."""
        if self._line_open:
            self._tell("\r\033[K")
            self._line_open = False

    def _tell(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self.err.write(text)
            self.err.flush()

    @property
    def interactive(self) -> bool:
        """Whether stderr is a terminal that can replace a line."""
        return self.err.isatty() and os.environ.get("TERM") != "dumb"

    def style(self, text: str, name: str, stream: TextIO | None = None) -> str:
        """Coloured on a terminal, unless NO_COLOR is set (no-color.org)."""
        stream = stream or self.out
        if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return text
        return f"\033[{_STYLES[name]}m{text}\033[0m"

    def error(self, error: FlexserveError) -> None:
        """The one place where an error is printed: a sentence on stderr, or its JSON document on stdout."""
        self.clear()
        with contextlib.suppress(OSError):  # a full or closed stream is the error, or must not hide it
            if self.as_json:
                print(dump(self._document(error), self.out, a_line=self.lines), file=self.out, flush=True)
                return
        with contextlib.suppress(OSError):
            print(f"{self.style('error:', 'red', self.err)} {error}", file=self.err, flush=True)

    def _document(self, error: FlexserveError) -> dict[str, object]:
        if not self.lines:
            return error.as_dict()
        from flexserve.tunnel.events import end_of  # the command whose output is lines

        return end_of(error).as_dict()


def dump(document: Mapping[str, object], stream: TextIO | None = None, *, a_line: bool = False) -> str:
    """JSON as every `--json` prints it; escaped where the stream cannot take every character. `a_line`: on one line."""
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-")
    return json.dumps(document, indent=None if a_line else 2, ensure_ascii=encoding not in ("utf-8", "utf8"), default=str)


def canonical(document: Mapping[str, object]) -> str:
    """The same bytes for the same content: sorted keys, one line a key, a final newline is the caller's."""
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True, default=str)


def table(rows: Sequence[Sequence[str]], gap: str = "  ") -> str:
    """Columns aligned by their widest cell; the last one is not padded."""
    widths = [max((len(row[i]) for row in rows if i < len(row) - 1), default=0) for i in range(max(map(len, rows), default=0))]
    return "\n".join(gap.join(cell.ljust(widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows)


def dollars(amount: float | None, unit: str = "") -> str:
    """`$1.355/h`, or `unknown`."""
    return "unknown" if amount is None else f"${amount:,.4f}".rstrip("0").rstrip(".") + unit


def columns(stream: TextIO) -> int:
    """The terminal's width; 80 for what is none, or does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
