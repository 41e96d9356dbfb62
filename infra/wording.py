"""A checker's findings in an operator's words: which key, what it must be, what was given. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from verdict.secrets import SECRET_VALUE

MUST_BE = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list, as in [a, b]",
    "dict_type": "must be a group of keys, as in {{a: 1}}",
    "too_short": "must not be empty",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "invalid_key": "the key must be text",
    "invalid-json-value": "must be text, a number, true, false, a list or a group of keys",
}
"""The checker's types of error -> our words; its context fills in the braces."""
_GROUPS = ("model_type", "model_attributes_type")
_KEY = "[key]"


@dataclass(frozen=True)
class _Place:
    """Where a finding is: its keys, the model that the last key is in, and what that key may hold.

    `branch` is the part of an either-or (`own`, or a group of keys) that the checker tried last, where the finding is about the
    either-or itself.
    """

    path: tuple[str, ...]
    parent: type[BaseModel] | None
    holds: Any
    branch: str = ""


def sentences(shape: type[BaseModel], problems: Iterable[Any], prefix: str) -> list[str]:
    """One sentence a finding, each once. `prefix` goes before every key, e.g. `flexserve:target.`."""
    said: dict[str, None] = {}
    for problem in problems:
        place = _place(shape, problem["loc"])
        given = problem.get("input")
        if place.branch and (isinstance(given, Mapping) if _is_word(place.branch) else problem["type"] in _GROUPS):
            continue  # the other branch of the either-or says it
        if problem["type"] == "too_short" and given:
            continue  # it is short of what was refused in it
        key = prefix + ".".join(place.path) if place.path else prefix.rstrip(".")
        said[f"{key}: {_words(place, problem)}{_got(problem)}"] = None
    return list(said)


def nearest(word: str, known: Iterable[str], none: str = "there is none") -> str:
    """The known word that was meant, else all of them; `none` says what to do where there are none."""
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


def _got(problem: Any) -> str:
    """What was given, where the sentence does not show it already."""
    kind, given = problem["type"], short(problem.get("input"))
    told = kind in ("missing", "extra_forbidden", "too_short") or problem["loc"][-1:] == (_KEY,)
    if kind == "value_error":
        told = isinstance(problem.get("input"), Mapping) or given.strip("'") in str(problem["msg"])
    return "" if told else f" (got {given})"


def _words(place: _Place, problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx") or {}
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return f"no such key; {nearest(place.path[-1], place.parent.model_fields if place.parent else ())}"
    if kind == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    if problem["loc"][-1] == _KEY:
        return f"no such key; {nearest(place.path[-1], _choices(problem))}" if kind == "literal_error" else "the key must be text"
    if kind in _GROUPS or place.branch:
        keys = ", ".join(key for model in _models(place.holds) for key in model.model_fields)
        return "must be " + " or ".join([*_choices(problem), f"a group of keys ({keys})"])
    if kind == "literal_error":
        *others, last = _choices(problem)
        return f"must be {', '.join(others)} or {last}" if others else f"must be {last}"
    return MUST_BE[kind].format(**context) if kind in MUST_BE else "is not what belongs there"


def _choices(problem: Any) -> list[str]:
    """The words of a literal, as the checker lists them: `'a', 'b' or 'c'`."""
    text = str((problem.get("ctx") or {}).get("expected", ""))
    return [word.strip(" '") for word in text.replace(" or ", ",").split(",") if word.strip(" '")]


def _place(shape: type[BaseModel], location: Sequence[int | str]) -> _Place:
    at: type[BaseModel] | None = shape
    place = _Place((), shape, shape)
    for part in location:
        if part == _KEY:
            continue
        if place.path and place.holds is None:
            break  # inside of a value without a model: the checker's own words follow
        if _either_or(place.holds) and not place.branch:
            at = next((m for m in _models(place.holds) if m.__name__ == part), None)
            place = _Place(place.path, place.parent, place.holds, str(part))
            continue
        field = at.model_fields.get(str(part)) if at else None
        place = _Place((*place.path, str(part)), at, field.annotation if field else None)
        at = next(iter(_models(place.holds)), None)
    return place


def _is_word(branch: str) -> bool:
    return branch.startswith("literal[")


def _either_or(annotation: Any) -> bool:
    """A word or a group of keys."""
    return bool(_models(annotation)) and any(get_origin(part) is Literal for part in get_args(annotation))


def _models(annotation: Any) -> list[type[BaseModel]]:
    parts = (annotation, *get_args(annotation))
    return [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
