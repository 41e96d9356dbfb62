"""What a wrong value of any key is told: the key, our own words, exit 2; and never the checker's."""

import copy
import datetime
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra.deployment import Common, Deployment, from_values
from infra.shape import Settings, fields, parts
from infra.targets import registry
from infra.wording import short
from verdict.errors import BadConfig

MACHINE_WORDS = re.compile(
    r"Input should|valid (string|integer|number|dict|bool|list|tuple)|instance of|Extra inputs|Field required|unable to|Value error"
    r"|literal\[|\btuple\b|NoneType|\bNone\b|\bTrue\b|\bFalse\b|pydantic|type=|\[key\]|datetime|ctx|Tuple"
    r"|Mapping|is not what belongs",
)
DAY = datetime.date(2026, 1, 1)
WRONG: list[Any] = [
    *(None, True, 7, -1, 0, 1.5, 10**30, math.inf, math.nan, "", " ", "A B", "x" * 300, "ä", DAY, b"x"),
    *([], [7], [None], ["A B"], [[]], {}, {"x": 1}, {7: 7}, {"a": DAY}),
    *({"name": 7}, {"name": "", "subnetwork": ""}, {"image": -1}, {"image": "x"}),
]
VALUES: dict[str, Any] = {
    "target": {"kind": "gce_flex", "project": "acme-1", "zones": ["europe-west4-a"]},
    "model": {"name": "google/gemma-4-E2B-it"},
    "image": {"name": "vllm/vllm-tpu:v0.27.0"},
    "access": {"members": ["user:ops@acme.test"]},
    "secret": {"name": "hf-token"},
}


def keys(shape: type[Settings], *prefix: str) -> Iterator[tuple[str, ...]]:
    """Every key there is, groups included, and one that there is not in each group."""
    yield (*prefix, "nothing_like_it")
    for name, field in fields(shape).items():
        yield (*prefix, name)
        for part in parts(field.annotation):
            yield from keys(part, *prefix, name)


KEYS = [*keys(Common), *keys(registry.module("gce_flex", "config").Config, "target")]


def with_value(path: tuple[str, ...], value: object) -> dict[str, Any]:
    values: dict[str, Any] = copy.deepcopy(VALUES)
    at = values
    for part in path[:-1]:
        if not isinstance(at.get(part), dict):
            at[part] = {}
        at = at[part]
    at[path[-1]] = value
    return values


@pytest.mark.parametrize("path", KEYS, ids=".".join)
def test_a_wrong_value_is_told_in_our_words_and_no_key_takes_whatever_it_is_given(path):
    refused = 0
    for value in WRONG:
        try:
            assert isinstance(from_values("s", with_value(path, value)), Deployment)
        except BadConfig as error:
            refused += 1
            lines = str(error).splitlines()
            assert any(f"flexserve:{path[0]}" in line for line in lines), (value, lines)
            assert not [line for line in lines if MACHINE_WORDS.search(line)], value
            assert all(len(line) < 400 for line in lines), value
    assert refused


def test_a_choice_between_a_word_and_a_group_is_one_sentence():
    def said(value: object) -> list[str]:
        with pytest.raises(BadConfig) as error:
            from_values("s", with_value(("target", "network"), value))
        return str(error.value).splitlines()

    assert said("foo") == ["flexserve:target.network: must be own or a group of keys (name, subnetwork) (got 'foo')"]
    assert said({"name": "n", "subnetwork": 7}) == ["flexserve:target.network.subnetwork: must be text (got 7)"]
    assert said({"name": "n", "subnet": "s"}) == [
        "flexserve:target.network.subnetwork: missing",
        "flexserve:target.network.subnet: no such key; did you mean subnetwork?",
    ]


def test_what_was_given_is_short_and_no_secret():
    assert short("x" * 100) == "'" + "x" * 56 + "…"
    assert short(None) == "nothing" and short(True) == "true"
    assert "abcdefgh" not in short(["hf_abcdefghijkl"])
