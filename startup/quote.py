"""Shell quoting for templates: every value goes through `q`, and one that did not is an error while rendering."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from verdict.errors import BadConfig

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Shell(str):
    """Text that is already shell: a quoted value, or a piece of script that a macro put together."""

    __slots__ = ()


def q(value: object) -> Shell:
    r"""One shell word that bash reads back as exactly `value`. Raises `BadConfig` for what no argument can hold.

    Control characters are spelled out (`$'\015'`), so that a value never brings a line end into the script.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | PurePath):
        raise BadConfig(f"{value!r} has no one spelling in a shell")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadConfig(f"{text!r} is not text that a script can hold", why=str(error)) from error
    if "\0" in text:
        raise BadConfig(f"{text!r} holds a NUL, which no argument can")
    if not _CONTROL.search(text):
        return Shell(shlex.quote(text))
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return Shell("$'" + _CONTROL.sub(lambda found: f"\\{ord(found[0]):03o}", escaped) + "'")


def shell(text: str) -> Shell:
    """Mark a piece of script as script. For macros that print their own caller, never for a value."""
    return Shell(text)


def quoted_only(value: object) -> Shell:
    """Jinja's `finalize`: what is printed into a script was quoted, or it is refused."""
    if not isinstance(value, Shell):
        raise BadConfig(f"a template prints {value!r} without quoting it", way_out="add the filter: {{ value | q }}")
    return value
