"""Holds the values of a stack file against their declaration: all that is wrong, each in an operator's words. Pure.

A number or a truth value may be written as text, as Pulumi's own configuration passes it; a number without Python's `_`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from infra.shape import AfterValidator, BeforeValidator, FieldInfo, JsonValue, Settings, fields
from infra.wording import nearest, short

S = TypeVar("S", bound=Settings)
Path = tuple[str, ...]
_WRONG: Any = object()
_FAR = 2.0**63  # a float that large is a slip of the pen
_WHOLE = re.compile(r"\s*[+-]?\d+(\.0+)?\s*", re.ASCII)
_TRUE, _FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")


class Wrong(Exception):
    """`sentences`: one a finding, each once, in the order of the keys."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


def check(shape: type[S], values: Mapping[str, object], prefix: str) -> S:
    """The part that the values make. `prefix` goes before each key, e.g. `flexserve:target.`. Raises `Wrong`."""
    walk = _Walk(prefix)
    made: S = walk.group(shape, values, ())
    if walk.said:
        raise Wrong(list(walk.said))
    return made


class _Walk:
    """One check. Each method gives the value as its type, or says what is wrong and gives `_WRONG`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.said: dict[str, None] = {}

    def say(self, path: Path, words: str, given: Any = _WRONG) -> Any:
        key = self.prefix + ".".join(path) if path else self.prefix.rstrip(".")
        told = given is _WRONG or (isinstance(given, Mapping) and words.startswith("members"))
        self.said[f"{key}: {words}" + ("" if told or short(given).strip("'") in words else f" (got {short(given)})")] = None
        return _WRONG

    def group(self, shape: type[Settings], value: Any, path: Path) -> Any:
        if isinstance(value, shape):
            return value
        if not isinstance(value, Mapping):
            return self.say(path, f"must be {_expected(shape)}", value)
        known, before = fields(shape), len(self.said)
        read = {name: self.field(field, value[name], (*path, name)) for name, field in known.items() if name in value}
        for name in (name for name, field in known.items() if field.required and name not in value):
            self.say((*path, name), "missing")
        for key in (key for key in value if key not in known):
            self.say((*path, str(key)), f"no such key; {nearest(str(key), known)}")
        if len(self.said) > before or _WRONG in read.values():
            return _WRONG
        made = shape(**read)
        return made if self.tried(path, lambda _: made.together(), made.model_dump()) is not _WRONG else _WRONG

    def tried(self, path: Path, function: Callable[[Any], Any], value: Any) -> Any:
        """A check of our own: its ValueError has the words."""
        try:
            return function(value)
        except ValueError as error:
            return self.say(path, str(error), _WRONG if isinstance(value, Mapping) else value)

    def field(self, field: FieldInfo, value: Any, path: Path) -> Any:
        return self.bounded(field, self.value(field.annotation, value, path), path)

    def bounded(self, field: FieldInfo, value: Any, path: Path) -> Any:
        if value is _WRONG or value is None:
            return value
        for words, kept in (
            (f"must be more than {field.gt}", field.gt is None or value > field.gt),
            (f"must be {field.ge} or more", field.ge is None or value >= field.ge),
            (f"must be {field.le} or less", field.le is None or value <= field.le),
        ):
            if not kept:
                return self.say(path, words, value)
        return value if not field.min_length or len(value) >= field.min_length else self.say(path, "must not be empty")

    def value(self, hint: Any, value: Any, path: Path) -> Any:
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.annotated(inner[0], inner[1:], value, path)
        if origin in (Union, UnionType):
            return self.either(hint, inner, value, path)
        if origin is Literal:
            return value if isinstance(value, str) and value in inner else self.say(path, f"must be {_expected(hint)}", value)
        if origin is tuple:
            return self.several(inner[0], value, path)
        if origin is dict:
            return self.pairs(inner[0], inner[1], value, path)
        if isinstance(hint, type) and issubclass(hint, Settings):
            return self.group(hint, value, path)
        if hint is JsonValue:
            return value if _is_json(value) else self.say(path, f"must be {_expected(hint)}", value)
        read = _READ[hint](value)
        if read is _WRONG and hint is float and isinstance(value, float):
            return self.say(path, "must be a finite number", value)
        return self.say(path, f"must be {_expected(hint)}", value) if read is _WRONG else read

    def annotated(self, hint: Any, beside: Iterable[Any], value: Any, path: Path) -> Any:
        for check in beside:
            if isinstance(check, BeforeValidator) and value is not _WRONG:
                value = self.tried(path, check.func, value)
        value = value if value is _WRONG else self.value(hint, value, path)
        for check in beside:
            if isinstance(check, FieldInfo):
                value = self.bounded(check, value, path)
            if isinstance(check, AfterValidator) and value is not _WRONG:
                value = self.tried(path, check.func, value)
        return value

    def either(self, hint: Any, choices: tuple[Any, ...], value: Any, path: Path) -> Any:
        """The first choice that takes it. For a group of keys, what is wrong in it; else what it could be."""
        if value is None and NoneType in choices:
            return None
        open_to = [choice for choice in choices if choice is not NoneType]
        meant = [c for c in open_to if isinstance(value, Mapping) and isinstance(c, type) and issubclass(c, Settings)]
        if len(meant) == 1 or len(open_to) == 1:
            return self.value((meant or open_to)[0], value, path)
        for choice in open_to:
            trial = _Walk(self.prefix)
            read = trial.value(choice, value, path)
            if not trial.said:
                return read
        return self.say(path, f"must be {_expected(hint)}", value)

    def several(self, hint: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, list | tuple):
            return self.say(path, "must be a list, as in [a, b]", value)
        read = tuple(self.value(hint, item, (*path, str(number))) for number, item in enumerate(value))
        return _WRONG if _WRONG in read else read

    def pairs(self, key_hint: Any, hint: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, Mapping):
            return self.say(path, "must be a group of keys, as in {a: 1}", value)
        read = {}
        for key, item in value.items():
            at = (*path, str(key))
            if not isinstance(key, str):
                self.say(at, "the key must be text")
                read[str(key)] = _WRONG
            elif get_origin(key_hint) is Literal and key not in get_args(key_hint):
                self.say(at, f"no such key; {nearest(key, get_args(key_hint))}")
                read[key] = _WRONG
            else:
                name = self.value(key_hint, key, at)
                read[key] = self.value(hint, item, at) if name is not _WRONG else _WRONG
        return _WRONG if _WRONG in read.values() else read


def _expected(hint: Any) -> str:
    """What belongs there, after `must be`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _expected(inner[0])
    if origin is Literal:
        *others, last = map(str, inner)
        return f"{', '.join(others)} or {last}" if others else last
    if origin in (Union, UnionType):
        return " or ".join(_expected(choice) for choice in inner if choice is not NoneType)
    if isinstance(hint, type) and issubclass(hint, Settings):
        return f"a group of keys ({', '.join(fields(hint))})"
    return _WORDS.get(origin or hint, "something else")


_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list, as in [a, b]",
    dict: "a group of keys, as in {a: 1}",
    JsonValue: "text, a number, true, false, a list or a group of keys",
}


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _WRONG


def _whole(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and -_FAR < value < _FAR:
        return int(value)
    if isinstance(value, str) and len(value) < 100 and _WHOLE.fullmatch(value):
        return int(value.partition(".")[0])
    return _WRONG


def _number(value: Any) -> Any:
    try:
        odd = isinstance(value, bool) or not isinstance(value, int | float | str) or "_" in str(value)
        read = _WRONG if odd else float(value)
    except (ValueError, OverflowError):
        return _WRONG
    return read if read is not _WRONG and math.isfinite(read) else _WRONG


def _truth(value: Any) -> Any:
    text = f"{value + 0:g}" if isinstance(value, int | float) else value.lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else _WRONG


_READ: Mapping[Any, Callable[[Any], Any]] = {str: _text, int: _whole, float: _number, bool: _truth}


def _is_json(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(inner) for key, inner in value.items())
    return value is None or isinstance(value, str | int | float)
