"""One HTTP request and one answer, as they are on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class HttpRequest:
    """`path` is as sent, still percent-encoded, without the query; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def host(self) -> str:
        """The host asked for, without the port."""
        return self.headers.get("host", "").partition(":")[0].lower()

    def with_path(self, path: str) -> HttpRequest:
        """The same request for another path."""
        return replace(self, path=path)


@dataclass(frozen=True)
class HttpAnswer:
    """What goes back: a body, or a stream of pieces that are sent as they come."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: Iterator[bytes] | None = field(default=None, compare=False)


def request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpRequest:
    """A request from its line and headers (any case). A target in absolute form loses its scheme and host."""
    if "://" in target:
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    path, _, query = target.partition("?")
    return HttpRequest(method, path or "/", query, {name.lower(): value for name, value in headers.items()}, body)
