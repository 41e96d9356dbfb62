"""The checker takes and refuses what pydantic takes and refuses, from the same declarations."""

import copy
import datetime
import math
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ConfigDict, create_model, model_validator

from infra import shape
from infra.checker import Wrong, check
from infra.deployment import Common
from infra.shape import AfterValidator, BeforeValidator, Field, JsonValue, Settings, fields, parts
from infra.targets import registry


def hint(ours: Any) -> Any:
    """The same type for pydantic."""
    origin, inner = get_origin(ours), get_args(ours)
    if origin is Annotated:
        return Annotated[(hint(inner[0]), *map(beside, inner[1:]))]
    if origin in (tuple, dict):
        return origin[tuple(map(hint, inner))]
    if origin is not None and origin is not Literal:
        union = hint(inner[0])
        for part in inner[1:]:
            union = union | hint(part)
        return union
    if isinstance(ours, type) and issubclass(ours, Settings):
        return model(ours)
    return {JsonValue: pydantic.JsonValue, int: NoBool, float: FiniteNumber, str: NoBytes}.get(ours, ours)


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("no")
    return value


def _no_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        raise ValueError("no")
    return value


NoBool = Annotated[int, pydantic.BeforeValidator(_no_bool)]
FiniteNumber = Annotated[float, pydantic.BeforeValidator(_no_bool), pydantic.Field(allow_inf_nan=False)]
NoBytes = Annotated[str, pydantic.BeforeValidator(_no_bytes)]


def beside(ours: Any) -> Any:
    if isinstance(ours, BeforeValidator):
        return pydantic.BeforeValidator(ours.func)
    if isinstance(ours, AfterValidator):
        return pydantic.AfterValidator(ours.func)
    return field(ours)


def field(ours: shape.FieldInfo) -> Any:
    bounds = {k: v for k, v in (("gt", ours.gt), ("ge", ours.ge), ("le", ours.le)) if v is not None}
    bounds |= {"min_length": ours.min_length} if ours.min_length else {}
    return pydantic.Field(... if ours.required else ours.default, **bounds)


def model(ours: type[Settings]) -> type[pydantic.BaseModel]:
    def together(self: Any) -> Any:
        ours.together(self)
        return self

    return create_model(
        ours.__name__,
        __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True),
        __validators__={"together": model_validator(mode="after")(together)},
        **{name: (hint(f.annotation), field(f)) for name, f in fields(ours).items()},
    )


class Inner(Settings):
    """A group."""

    name: str
    size: int = Field(3, ge=1, le=9)


class Everything(Settings):
    """Every form that a declaration may have."""

    about: ClassVar[str] = "no key"

    text: str = "a"
    whole: int = Field(1, ge=-5)
    maybe: int | None = Field(None, ge=1)
    number: float = Field(0.5, gt=0, le=1)
    truth: bool = False
    word: Literal["own", "other"] = "own"
    words: tuple[str, ...] = Field((), min_length=1)
    counts: dict[Literal["a", "b"], Annotated[int, Field(ge=0)]] = Field({})
    anything: dict[str, JsonValue] = Field({})
    inner: Inner | None = None
    choice: Literal["own"] | Inner = "own"
    length: Annotated[int, BeforeValidator(len)] = 0

    def together(self) -> None:
        """Two keys that exclude each other."""
        if self.truth and self.word == "other":
            raise ValueError("not both")


MODEL = model(Everything)
ANY_TEXT = st.text(st.characters(exclude_characters="_-"), max_size=3)  # pydantic reads `1_0` as 10 and `0-1` as -1
TEXTS = st.sampled_from(["own", "other", "1", "-3", "1.0", "1.5", "true", "no", " 7 ", "inf", "1e3"])
LEAVES = st.none() | st.booleans() | st.integers(-10, 10) | st.just(10**30) | st.floats() | ANY_TEXT | TEXTS
KEYS = st.sampled_from(["a", "b", "name", "size", "c"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "name", "size", "c"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def ours(declared: type[Settings], values: dict[str, Any]) -> Any:
    try:
        return check(declared, values, "x:").model_dump()
    except Wrong:
        return "refused"


def theirs(declared: type[pydantic.BaseModel], values: dict[str, Any]) -> Any:
    try:
        return declared.model_validate(copy.deepcopy(values)).model_dump()
    except pydantic.ValidationError:
        return "refused"


def same(first: Any, second: Any) -> bool:
    return bool(first == second) and repr(first) == repr(second)


@pytest.mark.parametrize("key", [*fields(Everything), "no_such_key"])
@settings(deadline=None)  # the first look at a declaration reads its types
@given(value=VALUES)
def test_any_value_of_any_form_is_judged_as_pydantic_judges_it(key, value):
    if not (key == "length" and not hasattr(value, "__len__")):  # len raises TypeError, which is no finding
        assert same(ours(Everything, {key: value}), theirs(MODEL, {key: value}))


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*fields(Everything), "no"]), VALUES).filter(lambda v: "length" not in v))
def test_keys_together_are_judged_as_pydantic_judges_them(values):
    assert same(ours(Everything, values), theirs(MODEL, values))


WRONG = [None, True, 7, -1, 1.5, math.inf, "", "A B", "4h", "own", [], [7], ["a"], {}, {"x": 1}, {7: 7}, {"name": "n"},
         datetime.date(2026, 1, 1), b"x", {"image": 1}]  # fmt: skip


@pytest.mark.parametrize("declared", [Common, *(registry.module(kind, "config").Config for kind in registry.kinds())])
def test_the_stack_files_own_keys_too(declared):
    twin = model(declared)
    base = {name: None for name, f in fields(declared).items() if f.required}
    for key in fields(declared):
        for value in WRONG:
            values = {**base, key: value}
            refused, their = [], []
            try:
                check(declared, values, "x:")
            except Wrong as wrong:
                refused = sorted({line.partition(": ")[0].removeprefix("x:").partition(".")[0] for line in wrong.sentences})
            try:
                twin.model_validate(values)
            except pydantic.ValidationError as error:
                their = sorted({str(problem["loc"][0]) for problem in error.errors()})
            assert refused == their, (key, value)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(Wrong) as wrong:
        check(Everything, {"text": 1, "whole": -9, "wrods": [], "inner": {"size": "big"}, "counts": {"c": 1}}, "x:")
    assert wrong.value.sentences == [
        "x:text: must be text (got 1)",
        "x:whole: must be -5 or more (got -9)",
        "x:counts.c: no such key; one of a, b",
        "x:inner.size: must be a whole number (got 'big')",
        "x:inner.name: missing",
        "x:wrods: no such key; did you mean words?",
    ]


def test_nothing_changes_after_it_was_read():
    read = check(Everything, {}, "x:")
    with pytest.raises(AttributeError, match="does not change"):
        read.text = "b"
    other = read.model_copy(update={"text": "b"})
    assert (read.text, other.text) == ("a", "b") and other != read and other.model_copy(update={"text": "a"}) == read
    with pytest.raises(TypeError, match="no nme, name is missing"):
        Inner(nme="n")


def test_parts_are_found_wherever_they_stand():
    assert parts(fields(Everything)["choice"].annotation) == [Inner]
