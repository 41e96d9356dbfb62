"""Every key of the stack file, from its declaration."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from infra.deployment import Common
from infra.shape import FieldInfo, Settings, fields, parts
from infra.targets import registry


def page() -> str:
    """docs/reference/stack-file.md."""
    lines = [
        "# The stack file",
        "",
        "`stacks/Pulumi.STACK.yaml` describes one environment. Keys stand under `config:`, with the prefix `flexserve:`.",
        "`--set KEY=VALUE` changes one for a single `plan`, `render` or `rehearse`, without the prefix:",
        "`--set serving.text_only=true`.",
        "An unknown key or a wrong type is refused (exit 2) with the nearest key that exists.",
        "",
        "A key may also stand in `Pulumi.yaml`, under its `config:`, for every stack whose file does not have it: `owner: ops`,",
        "`owner: {value: ops}` or `owner: {default: ops}`; a group of keys needs `value:` before it, and one key of a group is",
        "written as `flexserve:target.project: acme-1`. `pulumi` and every `flexserve` command read them alike.",
        "",
        "## Common to all targets",
        "",
        *_table("", Common),
    ]
    for kind in registry.kinds():
        config = registry.module(kind, "config").Config
        lines += ["", f"## `flexserve:target` with `kind: {kind}`", "", *_table("target.", config)]
    return "\n".join(lines) + "\n"


def _table(prefix: str, shape: type[Settings]) -> list[str]:
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in leaves(prefix, shape):
        default = "**required**" if field.required else f"`{_short(field.default)}`"
        rows.append(f"| `{name}` | {_type(field)} | {default} | {field.description or ''} |")
    return rows


def leaves(prefix: str, shape: type[Settings]) -> Iterator[tuple[str, FieldInfo]]:
    """Every key that holds a value, with its dotted name."""
    for name, field in fields(shape).items():
        inner = next(iter(parts(field.annotation)), None)
        if inner is None or get_origin(field.annotation) is not None:
            yield f"{prefix}{name}", field
        if inner is not None:
            yield from leaves(f"{prefix}{name}.", inner)


def _type(field: FieldInfo) -> str:
    annotation = _bare(field.annotation)
    text = str(annotation).replace("typing.", "")
    if isinstance(annotation, type) and get_origin(annotation) is None:
        text = annotation.__name__
    for module in ("infra.settings.", "infra.shape.", "infra.targets."):
        while module in text:
            start = text.index(module)
            end = start + len(module)
            while "." in text[end:] and text[end:].split(".")[0].isidentifier():
                end += text[end:].index(".") + 1
            text = text[:start] + text[end:]
    return "`" + text.replace("|", "or").replace("NoneType", "None") + "`"


def _bare(annotation: Any) -> Any:
    """The type without the checks that hang on it."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bare(parts[0])
    if origin in (UnionType, Union):
        return functools.reduce(operator.or_, map(_bare, parts))
    return origin[tuple(map(_bare, parts))] if origin in (tuple, dict) else annotation


def _short(value: Any) -> str:
    if isinstance(value, Settings):
        value = value.model_dump()
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return (text if len(text) <= 60 else text[:57] + "…").replace("|", "\\|") or '""'
