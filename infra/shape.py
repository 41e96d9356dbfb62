"""What the parts of a stack file are declared with. Spelled as pydantic spells it, of which it is the subset that is needed here.

Why not pydantic itself: docs/decisions/stack-file-checker.md. A declaration costs nothing until it is looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

S = TypeVar("S", bound="Settings")
REQUIRED: Any = type("Required", (), {"__repr__": lambda _: "REQUIRED"})()

if TYPE_CHECKING:
    JsonValue = Any
else:

    class JsonValue:
        """Whatever JSON can say; it stands in annotations only."""


class BeforeValidator(NamedTuple):
    """Beside a type in `Annotated`: what it makes of the value is checked against the type. Raises ValueError with our words."""

    func: Callable[[Any], Any]


class AfterValidator(NamedTuple):
    """Beside a type in `Annotated`: it gets a value of that type. Raises ValueError with our words."""

    func: Callable[[Any], Any]


class FieldInfo(NamedTuple):
    """One key. Bounds hold for a number, `min_length` for a list; for a key that may be None only when it is not."""

    default: Any = REQUIRED
    description: str = ""
    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int = 0
    annotation: Any = None

    @property
    def required(self) -> bool:
        """Whether the stack file has to have it."""
        return self.default is REQUIRED


def Field(
    default: Any = REQUIRED,
    *,
    description: str = "",
    gt: float | None = None,
    ge: float | None = None,
    le: float | None = None,
    min_length: int = 0,
) -> Any:
    """A key's default, what it means and its bounds."""
    return FieldInfo(default, description, gt, ge, le, min_length)


class Settings:
    """A part of the stack file. Nothing changes after it is read; what is read goes through `infra.checker`."""

    def __init__(self, **values: Any) -> None:
        """As a dataclass: every key by name, defaults filled in. Raises TypeError; values are not checked here."""
        known = fields(type(self))
        wrong = [f"no {key}" for key in values if key not in known]
        wrong += [f"{key} is missing" for key, field in known.items() if field.required and key not in values]
        if wrong:
            raise TypeError(f"{type(self).__name__}: {', '.join(wrong)}")
        self.__dict__.update({k: values[k] if k in values else copy.copy(f.default) for k, f in known.items()})

    def together(self) -> None:
        """Raise ValueError, in our words, when the keys do not go together."""

    def model_copy(self: S, *, update: Mapping[str, Any]) -> S:
        """The same with other values; they are not checked."""
        return type(self)(**{**self.__dict__, **update})

    def model_dump(self) -> dict[str, Any]:
        """All keys and values, parts as dictionaries."""
        return {key: value.model_dump() if isinstance(value, Settings) else value for key, value in self.__dict__.items()}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} does not change: {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def fields(shape: type[Settings]) -> Mapping[str, FieldInfo]:
    """The keys of a part, in the order in which they are declared, a base class's first."""
    if shape not in _FIELDS:
        _FIELDS[shape] = _read(shape)
    return _FIELDS[shape]


_FIELDS: dict[type, Mapping[str, FieldInfo]] = {}


def _read(shape: type[Settings]) -> Mapping[str, FieldInfo]:
    found = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        if get_origin(hint) is ClassVar:
            continue
        beside = [m for m in get_args(hint)[1:] if isinstance(m, FieldInfo)] if get_origin(hint) is Annotated else []
        given = getattr(shape, name, REQUIRED)
        field = given if isinstance(given, FieldInfo) else FieldInfo(given)
        description = field.description or next((m.description for m in beside), "")
        found[name] = field._replace(annotation=hint, description=description)
    return found


def parts(annotation: Any) -> list[type[Settings]]:
    """The groups of keys among what a key may hold."""
    return [part for part in (annotation, *get_args(annotation)) if isinstance(part, type) and issubclass(part, Settings)]
