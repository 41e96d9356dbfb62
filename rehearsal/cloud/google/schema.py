"""Bodies and queries against the schemas of a discovery document.

`violations` says what is wrong with a value, in the form of Google's own field violations; `normalise` gives the form
in which Google stores and answers what it was sent: nulls dropped, 64-bit integers as JSON strings.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.cloud.google.discovery import Document, Method

INTEGERS = {"int64", "uint64", "int32", "uint32"}
PROTO_TYPES = {"int64": "TYPE_INT64", "uint64": "TYPE_UINT64", "int32": "TYPE_INT32", "uint32": "TYPE_UINT32"}
SYSTEM_PARAMETERS = {"$alt", "$fields", "$prettyPrint", "$key", "$callback", "$unique"}
BOUNDS = {"int32": (-(2**31), 2**31), "uint32": (0, 2**32), "int64": (-(2**63), 2**63), "uint64": (0, 2**64)}

TOLERATED: Mapping[tuple[str, str], str] = {
    ("RouterNat", "initialNatIps"): "the real provider sends it (empty) with every NAT, and no document has it",
}
"""Fields of requests that Google takes although its document lacks them, by (schema, field).

The reason. Never stored.
"""

TOLERATED_QUERY: Mapping[tuple[str, str], str] = {
    ("compute", "returnPartialSuccess"): "gcloud sends it with every list, and today's documents no longer have it",
}
"""The same for query parameters, by (API, parameter)."""


@dataclass(frozen=True)
class Violation:
    """`field` is the path in the body (empty: its root); `text` is Google's sentence."""

    field: str
    text: str


def violations(doc: Document, schema: str, value: object, root: str = "") -> list[Violation]:
    """Everything in `value` that the schema does not know or that has another type."""
    return list(_check(doc, {"$ref": schema}, value, root))


def query_violations(doc: Document, method: Method, query: Mapping[str, str]) -> list[Violation]:
    """Parameters that the method does not have, or whose value does not fit."""
    found = []
    for name, value in query.items():
        spec = method.query.get(name) or doc.common.get(name)
        if spec is None:
            if name not in SYSTEM_PARAMETERS and (doc.name, name) not in TOLERATED_QUERY:
                text = f'Unknown name "{name}": Cannot bind query parameter.'
                found.append(Violation("", f"{text} Field '{name}' could not be found in request message."))
        elif not _query_fits(spec, value):
            found.append(Violation(name, f"Invalid value at '{name}' ({_proto(spec)}), \"{value}\""))
    return found


def normalise(doc: Document, schema: str, value: object) -> Any:
    """`value` as Google would store it. The value must have no violations."""
    return _normal(doc, {"$ref": schema}, value)


def _resolve(doc: Document, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return doc.schemas[spec["$ref"]] if "$ref" in spec else spec


def _check(doc: Document, raw: Mapping[str, Any], value: object, at: str) -> Iterator[Violation]:
    spec = _resolve(doc, raw)
    if value is None:
        return
    kind = spec.get("type", "any")
    if kind == "object":
        yield from _check_object(doc, spec, value, at)
    elif kind == "array":
        if not isinstance(value, list):
            yield _wrong(at, spec, value)
            return
        for index, item in enumerate(value):
            yield from _check(doc, spec["items"], item, f"{at}[{index}]")
    elif kind != "any" and not _scalar_fits(spec, value):
        yield _wrong(at, spec, value)


def _check_object(doc: Document, spec: Mapping[str, Any], value: object, at: str) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _wrong(at, spec, value)
        return
    known = spec.get("properties", {})
    extra = spec.get("additionalProperties")
    for name, item in value.items():
        if name in known:
            yield from _check(doc, known[name], item, f"{at}.{name}" if at else name)
        elif (spec.get("id"), name) in TOLERATED and not item:
            continue
        elif extra is not None:
            yield from _check(doc, extra, item, f"{at}[{name}]")
        else:
            where = f" at '{at}'" if at else ""
            yield Violation(at, f'Unknown name "{name}"{where}: Cannot find field.')


def _scalar_fits(spec: Mapping[str, Any], value: object) -> bool:
    kind, form = spec["type"], spec.get("format")
    if kind == "boolean":
        return isinstance(value, bool)
    if form in INTEGERS:
        return _integer_fits(form, value)
    if kind in ("number", "integer"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, str):
        return False
    if form == "byte":
        return _is_base64(value)
    return "enum" not in spec or value in spec["enum"]


def _integer_fits(form: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        return False
    if isinstance(value, float) and not value.is_integer():
        return False
    if isinstance(value, str) and not re.fullmatch(r"-?\d+", value):
        return False
    low, high = BOUNDS[form]
    return low <= int(value) < high


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _query_fits(spec: Mapping[str, Any], value: str) -> bool:
    if spec.get("type") == "boolean":
        return value.lower() in ("true", "false")  # gcloud writes True
    if spec.get("format") in INTEGERS:
        return _integer_fits(spec["format"], value)
    return "enum" not in spec or value in spec["enum"] or value.split(";")[0] in spec["enum"]


def _proto(spec: Mapping[str, Any]) -> str:
    if "enum" in spec:
        return "TYPE_ENUM"
    return PROTO_TYPES.get(
        str(spec.get("format")),
        {"boolean": "TYPE_BOOL", "string": "TYPE_STRING"}.get(str(spec.get("type")), "TYPE_MESSAGE"),
    )


def _wrong(at: str, spec: Mapping[str, Any], value: object) -> Violation:
    shown = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return Violation(at, f"Invalid value at '{at}' ({_proto(spec)}), {shown}")


def _only_nulls(value: object) -> bool:
    """`[null]` is what some clients send for "none"."""
    return isinstance(value, list) and bool(value) and all(item is None for item in value)


def _normal(doc: Document, raw: Mapping[str, Any], value: object) -> Any:
    spec = _resolve(doc, raw)
    if isinstance(value, dict):
        known, extra = spec.get("properties", {}), spec.get("additionalProperties") or {}
        return {
            k: _normal(doc, known.get(k, extra), v)
            for k, v in value.items()
            if v is not None and not _only_nulls(v) and (spec.get("id"), k) not in TOLERATED
        }
    if isinstance(value, list):
        return [_normal(doc, spec.get("items", {}), item) for item in value if item is not None]
    form = spec.get("format")
    if form in INTEGERS and isinstance(value, int | float | str) and not isinstance(value, bool):
        return str(int(value)) if spec.get("type") == "string" else int(value)
    return value
