"""The attention backends that a stack's extra arguments ask vLLM for, in each of its spellings.

Source: vLLM's design/attention_backends page and config/attention.py (0.26 to 0.32): `--attention-backend`, or `--attention-config`
as JSON or by dotted names; `backend_per_kind` names one for some layers; `--mm-encoder-attn-backend` is of the encoders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_CONFIG = ("attention_config", "ac")


def for_text(extra: Mapping[str, Any]) -> Iterator[str]:
    """Those of the language model's layers."""
    for name, value in _named(extra):
        if name == "attention_backend" and value is not None:
            yield str(value)
    yield from in_config(extra)


def for_encoders(extra: Mapping[str, Any]) -> Iterator[str]:
    """Those of the encoders of images and sound."""
    yield from (str(value) for name, value in _named(extra) if name == "mm_encoder_attn_backend" and value is not None)


def in_config(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that `--attention-config` names; vLLM takes none beside `--attention-backend`."""
    return tuple(_of(extra))


def _of(extra: Mapping[str, Any]) -> Iterator[str]:
    for name, value in _named(extra):
        config, _, key = name.partition(".")
        if config not in _CONFIG:
            continue
        given = _read({key: value} if key else value)
        if (one := given.get("backend")) is not None:
            yield str(one)
        each = given.get("backend_per_kind")
        yield from map(str, each.values()) if isinstance(each, Mapping) else ()


def _named(extra: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name.replace("-", "_"), value) for name, value in extra.items())


def _read(value: Any) -> Mapping[str, Any]:
    """The option's value as a mapping; text is JSON. What is neither vLLM refuses itself."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}
