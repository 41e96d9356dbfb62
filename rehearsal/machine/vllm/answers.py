"""What the stand-in says: nothing clever, always the same, and the nonce that it was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

NONCE = re.compile(r"\b(?=[A-Za-z-]*\d)[A-Za-z0-9][A-Za-z0-9-]{5,}\b")


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a chat message, whose content is a string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping) and part.get("type") == "text")


def parts(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """The kinds of content parts used, such as text, image_url, input_audio."""
    kinds: set[str] = set()
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            kinds |= {str(part.get("type")) for part in content if isinstance(part, Mapping)}
    return kinds


def answer(prompt: str, fault: str = "") -> str:
    """A short text that holds every nonce of the prompt (a word of six or more letters with a digit in it), else its words."""
    if fault == "garbage":
        return "the the of of and and 0 0 0"
    if fault == "empty":
        return ""
    nonces = list(dict.fromkeys(NONCE.findall(prompt)))
    return " ".join(nonces) if nonces else f"This stand-in for vLLM was asked: {prompt.strip()[-400:]}"


def tokens(text: str) -> list[str]:
    """The stand-in's tokens: words with the space before them, long words in pieces."""
    return re.findall(r"\s*\S{1,8}", text)


def as_json(schema: Mapping[str, Any], said: str) -> str:
    """A document that fits a simple JSON schema, the text in its strings."""
    return json.dumps(_value(schema, said))


def _value(schema: Mapping[str, Any], said: str) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "array":
        return [_value(schema.get("items", {}), said)]
    simple: dict[object, object] = {"string": said, "integer": 1, "number": 1.0, "boolean": True, "null": None}
    if kind in simple:
        return simple[kind]
    properties = schema.get("properties") or {"answer": {"type": "string"}}
    return {name: _value(inner, said) for name, inner in properties.items()}
