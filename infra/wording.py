"""The words around a wrong value: which one was meant, and what was given. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from verdict.secrets import SECRET_VALUE


def nearest(word: str, known: Iterable[str], none: str = "there is none") -> str:
    """The known word that was meant, else all of them; `none` says what to do where there are none."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"one of {', '.join(names)}" if names else none


def short(value: object) -> str:
    """What was given, in at most 60 characters; never what looks like a secret's value."""
    text = "nothing" if value is None else repr(value) if isinstance(value, str) else _json(value)
    if SECRET_VALUE.search(text):
        return "what looks like a secret's value"
    return text if len(text) <= 60 else text[:57] + "…"


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except TypeError:  # a key that is no text
        return str(value)
