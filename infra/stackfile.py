"""What a stack file and `--set` say, read as Pulumi reads it. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from verdict.errors import BadConfig

NAMESPACE = "flexserve"
_WORD = re.compile(r"[A-Za-z](?:[\w@:/.+-]*[\w])?", re.ASCII)
_NUMBER = re.compile(r"[1-9]\d{0,14}", re.ASCII)
_NO_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off"})
_NOT_PLAIN: Any = object()


def parse(text: str, what: str, way_out: str = "") -> Any:
    """One YAML document. Raises `BadConfig` that says where, never what stands there: it may be a secret's value."""
    value = plain(text)
    if value is not _NOT_PLAIN:
        return value
    from infra import goyaml

    return goyaml.parse(text, what, way_out)


def plain(text: str) -> Any:
    """The value of a word, a whole number or a list of quoted words, as most `--set`s are: the YAML reader is a third of a plan.

    `_NOT_PLAIN` for everything else. The tests hold it against the reader.
    """
    if _WORD.fullmatch(text):
        return _NOT_PLAIN if text.lower() in _NO_TEXT else text
    if _NUMBER.fullmatch(text):
        return int(text)
    if text.startswith("[") and text.isascii() and text.isprintable() and "\\" not in text:
        try:
            value = json.loads(text)
        except ValueError:
            return _NOT_PLAIN
        return value if all(isinstance(item, str) for item in value) else _NOT_PLAIN
    return _NOT_PLAIN


def config_of(stack: str, text: str) -> dict[str, Any]:
    """As `config_in`, from the file's text."""
    return config_in(stack, parse(text, f"stacks/Pulumi.{stack}.yaml"))


def config_in(stack: str, document: Any) -> dict[str, Any]:
    """What stands below `config:`; a key without a namespace is the project's own, as Pulumi has it. Raises `BadConfig`."""
    what = f"stacks/Pulumi.{stack}.yaml"
    document = document or {}
    config = (document.get("config") or {}) if isinstance(document, dict) else None
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in config):
        raise BadConfig(f"{what} is not a stack file", way_out="write flexserve:KEY: VALUE below config:")
    full: dict[str, Any] = {}
    for key, value in config.items():
        name = key if ":" in key else f"{NAMESPACE}:{key}"
        if name in full:
            raise BadConfig(f"{what}: {name} stands twice, with and without {NAMESPACE}:", way_out="leave out one of them")
        full[name] = value
    return full
