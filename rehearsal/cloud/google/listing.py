"""Lists as compute answers them: `filter`, `orderBy`, `maxResults` and `pageToken`, and the aggregated form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.errors import invalid
from rehearsal.cloud.google.state import State

TERM = re.compile(r"""\s*(NOT\s+|-)?([\w.\-"]+)\s*(!=|>=|<=|=|:|>|<|\seq\s|\sne\s)\s*("[^"]*"|'[^']*'|\([^)]*\)|[^\s()]+)\s*""")


def listed(kind: str, items: Sequence[Json], call: Call) -> Json:
    """One page."""
    chosen = filtered(items, call)
    if call.query.get("orderBy") == "creationTimestamp desc":
        chosen = chosen[::-1]
    start, most = int(call.query.get("pageToken") or 0), int(call.query.get("maxResults") or 500)
    answer: Json = {"kind": kind, "id": call.path}
    if chosen[start : start + most]:  # an empty list has no `items` at all
        answer["items"] = chosen[start : start + most]
    if start + most < len(chosen):
        answer["nextPageToken"] = str(start + most)
    return answer


def aggregated(state: State, call: Call, collection: str, kind: str) -> Json:
    """Every scope of the project, with a warning where there is none."""
    scopes = [f"zones/{z}" for z in state.inventory.zones] + [f"regions/{r}" for r in state.inventory.regions] + ["global"]
    project = f"projects/{call.params['project']}"
    items: dict[str, Json] = {}
    for scope in scopes:
        prefix = f"{project}/{scope}/{collection}/"
        found = filtered(state.children(prefix), call)
        if found:
            items[scope] = {collection: found}
        elif call.query.get("returnPartialSuccess") != "true" or scope.startswith("zones/"):
            text = f"There are no results for scope '{scope}' on this page."
            items[scope] = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": text, "data": [{"key": "scope", "value": scope}]}}
    return {"kind": kind, "id": f"{project}/aggregated/{collection}", "items": items}


def filtered(items: Iterable[Json], call: Call) -> list[Json]:
    """Those that the call's filter lets through: terms joined by AND, OR (it binds tighter) or blank. Raises the API's 400."""
    groups = _parse(call.query.get("filter", ""))
    return [item for item in items if all(any(_holds(item, *term) for term in group) for group in groups)]


Term = tuple[bool, str, str, str]


def _parse(expression: str) -> list[list[Term]]:
    groups: list[list[Term]] = []
    rest, joined = expression.strip(), False
    while rest:
        if rest[0] == "(" and (end := _closing(rest)) > 0:
            inner = _parse(rest[1:end])
            if joined and len(inner) == 1:
                groups[-1].extend(inner[0])
            else:
                groups.extend(inner)
            rest = rest[end + 1 :].strip()
        else:
            found = TERM.match(rest)
            if found is None:
                raise invalid("filter", expression, "Invalid list filter expression.")
            term = (bool(found[1]), found[2].replace('"', ""), found[3].strip(), found[4].strip("\"'"))
            if joined:
                groups[-1].append(term)
            else:
                groups.append([term])
            rest = rest[found.end() :].strip()
        joined = re.match(r"OR\b", rest) is not None
        rest = re.sub(r"\A(AND|OR)\b\s*", "", rest)
    return groups


def _closing(text: str) -> int:
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return index
    return -1


def _holds(item: Mapping[str, object], negated: bool, field: str, operator: str, wanted: str) -> bool:
    values = [_text(v) for v in _values(item, field.split("."))]
    return _compare(values, operator, wanted) != negated


def _compare(values: Sequence[str], operator: str, wanted: str) -> bool:
    if operator == ":":
        return bool(values) if wanted == "*" else any(_has(v, wanted) for v in values)
    if operator in ("=", "eq"):
        pattern = re.escape(wanted).replace(r"\*", ".*") if operator == "=" else wanted
        return any(re.fullmatch(pattern, v) for v in values)
    if operator in ("!=", "ne"):
        return not _compare(values, "=" if operator == "!=" else "eq", wanted)
    low = [v < wanted if not (_number(v) and _number(wanted)) else float(v) < float(wanted) for v in values]
    same = [v == wanted for v in values]
    table = {
        "<": low,
        "<=": [a or b for a, b in zip(low, same, strict=True)],
        ">": [not (a or b) for a, b in zip(low, same, strict=True)],
    }
    return any(table.get(operator, [not a for a in low]))


def _has(value: str, wanted: str) -> bool:
    """The `:` operator: a prefix with `*`, else a word of the value or the value itself, whatever the case."""
    value, wanted = value.lower(), wanted.lower()
    return value.startswith(wanted[:-1]) if wanted.endswith("*") else wanted == value or wanted in re.split(r"[^\w\-]+", value)


def _values(node: object, names: Sequence[str]) -> Iterable[object]:
    if isinstance(node, list):
        for item in node:
            yield from _values(item, names)
    elif not names:
        yield node
    elif isinstance(node, Mapping) and names[0] in node:
        yield from _values(node[names[0]], names[1:])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None
