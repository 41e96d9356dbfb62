"""Google's discovery documents, as the wheel carries them: which method is it, what may it hold.

The wheel is that of `google-api-python-client`. A document is parsed when it is first needed and then kept. Methods are
found by HTTP method and path; the path of a compute method has one segment a variable, those of the other APIs have
`{+name}` variables whose pattern the document states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

DOCUMENTS = "googleapiclient.discovery_cache.documents"
SNAKE = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class Method:
    """One method of an API. `parameters` are the document's own, without those that every method takes."""

    id: str
    http_method: str
    path: str
    parameters: Mapping[str, Mapping[str, Any]]
    request: str | None
    response: str | None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches a request's path below the API's service path."""
        return re.compile("".join(self._piece(part) for part in re.split(r"(\{\+?\w+\})", self.path)) + r"\Z")

    def _piece(self, part: str) -> str:
        if not part.startswith("{"):
            return re.escape(part)
        name = part.strip("{+}")
        if not part.startswith("{+"):
            return f"(?P<{name}>[^/:]+)"
        stated = str(self.parameters.get(name, {}).get("pattern", ".+")).removeprefix("^").removesuffix("$")
        return f"(?P<{name}>{stated.replace('.*', '.+')})"

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """Of its path; empty where a variable stands."""
        return tuple("" if "{" in segment else segment for segment in self.path.split("/"))

    @cached_property
    def query(self) -> Mapping[str, Mapping[str, Any]]:
        """Its query parameters, under each of the spellings that Google reads: camelCase and snake_case."""
        stated = {k: v for k, v in self.parameters.items() if v.get("location") == "query"}
        return stated | {SNAKE.sub("_", k).lower(): v for k, v in stated.items()}


@dataclass(frozen=True)
class Match:
    """A request's method and the values in its path."""

    method: Method
    params: Mapping[str, str]


class Document:
    """One parsed discovery document."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.name = str(raw["name"])
        self.service_path = str(raw["servicePath"])
        self.schemas: Mapping[str, Mapping[str, Any]] = raw["schemas"]
        self.common: Mapping[str, Mapping[str, Any]] = raw["parameters"]
        self._fixed: dict[tuple[str, int], list[Method]] = {}
        self._open: dict[str, list[Method]] = {}
        self.methods: dict[str, Method] = {}
        for method in _methods(raw):
            self.methods[method.id] = method
            if "{+" in method.path:
                self._open.setdefault(method.http_method, []).append(method)
            else:
                self._fixed.setdefault((method.http_method, method.path.count("/")), []).append(method)
        for methods in self._fixed.values():
            methods.sort(key=lambda m: m.path.count("{"))  # `aggregated/instances` before `{a}/{b}`
        for methods in self._open.values():
            methods.sort(key=lambda m: (_openness(m), -len(m.path)))

    def match(self, http_method: str, path: str) -> Match | None:
        """The method of `path` (below the service path), or None when Google has none there."""
        candidates = self._fixed.get((http_method, path.count("/")), []) + self._open.get(http_method, [])
        segments = path.split("/")
        for method in candidates:
            if not _could_be(method, segments):
                continue
            found = method.pattern.match(path)
            if found is not None:
                return Match(method, {k: unquote(v) for k, v in found.groupdict().items()})
        return None


def _could_be(method: Method, segments: list[str]) -> bool:
    """Cheap look before a pattern is compiled: compute has more than a thousand."""
    if "{+" in method.path:
        return True
    return all(not wanted or wanted == given for wanted, given in zip(method.segments, segments, strict=True))


def _openness(method: Method) -> int:
    return sum(str(p.get("pattern", "")) in ("", "^.*$") for p in method.parameters.values() if p.get("location") == "path")


def _methods(node: Mapping[str, Any]) -> Iterator[Method]:
    for raw in node.get("methods", {}).values():
        yield Method(
            id=raw["id"],
            http_method=raw["httpMethod"],
            path=raw["path"],
            parameters=raw.get("parameters", {}),
            request=raw.get("request", {}).get("$ref"),
            response=raw.get("response", {}).get("$ref"),
        )
    for child in node.get("resources", {}).values():
        yield from _methods(child)


@cache
def document(name: str, version: str) -> Document:
    """The document of `compute`, `beta` and the like. Raises FileNotFoundError when the wheel has none of that name."""
    raw = json.loads(files(DOCUMENTS).joinpath(f"{name}.{version}.json").read_bytes())
    return Document(raw)
