"""A streamed answer put together again: what the server would have said without `stream`.

Source: OpenAI's API reference, "chat completion chunk object" and "chat completion object"; vLLM adds `reasoning_content` and
`stop_reason`, and any further string field of a delta is joined likewise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_DONE = "[DONE]"


class NotAStream(ValueError):
    """The server's bytes are no event stream; `body` is all of them."""

    def __init__(self, body: bytes) -> None:
        super().__init__("the server did not answer with an event stream")
        self.body = body


class CutStream(ValueError):
    """The stream ended before its end mark."""


def events(chunks: Iterable[bytes]) -> Iterator[str]:
    """The `data:` values of server-sent events, however the bytes are cut. Raises `NotAStream` when there was none."""
    rest, whole, seen = b"", bytearray(), False
    for chunk in chunks:
        if not seen:
            whole += chunk
        rest += chunk
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                seen = True
                whole.clear()
                yield line[5:].strip().decode("utf-8", "replace")
    if not seen:
        raise NotAStream(bytes(whole))


def assemble(values: Iterable[str]) -> dict[str, Any]:
    """One completion from its chunks. A chunk that is an error is returned as it is. Raises `CutStream` without an end mark."""
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for value in values:
        if value == _DONE:
            whole["choices"] = [choices[index] for index in sorted(choices)]
            return whole
        chunk = json.loads(value)
        if "error" in chunk or chunk.get("object") == "error":
            return dict(chunk)
        for part in chunk.pop("choices", []):
            _join(choices.setdefault(int(part.get("index", 0)), {"index": int(part.get("index", 0))}), part)
        for name, field in chunk.items():
            if field is not None or name not in whole:
                whole[name] = field
        if whole.get("object") == "chat.completion.chunk":
            whole["object"] = "chat.completion"
    raise CutStream("the stream ended before [DONE]")


def _join(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add one chunk's part of a choice to it."""
    for name, value in part.items():
        if name == "index":
            continue
        if name == "delta":
            _join_message(choice.setdefault("message", {"role": "assistant", "content": None}), value or {})
        elif name == "text":
            choice["text"] = choice.get("text", "") + (value or "")
        elif name == "logprobs" and isinstance(value, Mapping):
            _extend(choice, name, value)
        elif value is not None or name not in choice:
            choice[name] = value


def _join_message(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for call in value or []:
                _join_call(message.setdefault("tool_calls", []), call)
        elif name == "role":
            message["role"] = value or message["role"]
        elif isinstance(value, str):
            message[name] = (message.get(name) or "") + value
        elif value is not None or name not in message:
            message[name] = value


def _join_call(calls: list[dict[str, Any]], part: Mapping[str, Any]) -> None:
    """A tool call arrives in pieces: id and name first, then its arguments."""
    index = int(part.get("index", len(calls)))
    while len(calls) <= index:
        calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[index]
    call["id"] = part.get("id") or call["id"]
    call["type"] = part.get("type") or call["type"]
    function = part.get("function") or {}
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


def _extend(choice: dict[str, Any], name: str, value: Mapping[str, Any]) -> None:
    """Log probabilities are lists, one entry a token."""
    kept = choice.get(name)
    if not isinstance(kept, dict):
        choice[name] = {key: list(field) if isinstance(field, list) else field for key, field in value.items()}
        return
    for key, field in value.items():
        if isinstance(field, list) and isinstance(kept.get(key), list):
            kept[key].extend(field)
        elif field is not None:
            kept[key] = field
