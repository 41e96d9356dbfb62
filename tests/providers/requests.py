"""Requests in a normal form, and the comparison of a recorded list with ours.

What only the cloud can say (operation names, fingerprints, etags) and what is drawn by lot (the seven digits of a
name) is put down to a placeholder: it must be there, it need not be the same. Secret payloads likewise.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from tests.providers.deviations import Deviation, leaf_changes

CLOUD_SAYS = {"fingerprint", "labelFingerprint", "etag", "data"}
AUTONAME = re.compile(r"-[0-9a-f]{7}\b")


@dataclass(frozen=True)
class Request:
    """A request as it is compared. `body` is JSON text with sorted keys, empty without one."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    body: str

    @property
    def what(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"


def normal(method: str, path: str, query: str | Mapping[str, str], body: Any) -> Request:
    """The normal form. A body of `{}` is no body."""
    path = re.sub(r"/operations/[^/]+$", "/operations/OPERATION", AUTONAME.sub("-AUTO", path))
    pairs = parse_qsl(query) if isinstance(query, str) else list(query.items())
    text = json.dumps(_placeholders(body), sort_keys=True) if body else ""
    return Request(method, path, tuple(sorted(pairs)), text)


def _placeholders(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: f"<{key}>" if key in CLOUD_SAYS and item else _placeholders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_placeholders(item) for item in value]
    return AUTONAME.sub("-AUTO", value) if isinstance(value, str) else value


def without_polls(requests: Sequence[Request]) -> list[Request]:
    """Repeated looks left out, as in the recordings."""
    seen: set[Request] = set()
    kept = []
    for request in requests:
        if request.method == "GET" and request in seen:
            continue
        seen.add(request)
        kept.append(request)
    return kept


def compare(recorded: Sequence[Request], ours: Sequence[Request]) -> list[Deviation]:
    """Every request that is missing, too much, different in query or body, or out of order among those of its thing."""
    recorded, ours = without_polls(recorded), without_polls(ours)
    missing = list((Counter(recorded) - Counter(ours)).elements())
    extra = list((Counter(ours) - Counter(recorded)).elements())
    deviations = []
    for request in list(missing):
        twin = next((other for other in extra if other.what == request.what), None)
        if twin is not None:
            missing.remove(request)
            extra.remove(twin)
            deviations += [Deviation("request", request.what, text) for text in _inside(request, twin)]
    deviations += [Deviation("request", request.what, "is missing") for request in missing]
    deviations += [Deviation("request", request.what, "is not recorded") for request in extra]
    return deviations or _order(recorded, ours)


def _inside(recorded: Request, ours: Request) -> list[str]:
    texts = [f"query {text}" for text in leaf_changes(dict(recorded.query), dict(ours.query))]
    one, other = (json.loads(request.body) if request.body else None for request in (recorded, ours))
    return texts + [f"body {text}" for text in leaf_changes(one, other)]


def _order(recorded: Sequence[Request], ours: Sequence[Request]) -> list[Deviation]:
    deviations = []
    for thing in sorted({_thing(request) for request in recorded}):
        if not thing:
            continue
        one, other = ([r for r in requests if _thing(r) == thing] for requests in (recorded, ours))
        if one != other:
            texts = [" > ".join(f"{r.method} {r.path.rpartition('/')[2]}" for r in rs) for rs in (one, other)]
            deviations.append(Deviation("request", thing, f"order {texts[1]}, recorded {texts[0]}"))
    return deviations


def _thing(request: Request) -> str:
    """The collection a request is about, empty for operations: things of different kinds run side by side."""
    if "/operations/" in request.path:
        return ""
    found = re.match(r"(/[a-z]+/\w+)/(?:.*/)?(instances|disks|firewalls|networks|subnetworks|routers|[a-zA-Z]+)", request.path)
    parts = request.path.split("/")
    kinds = ("instances", "firewalls", "networks", "subnetworks", "routers", "serviceAccounts", "secrets", "repositories")
    kind = next((kind for kind in kinds if kind in parts), "")
    verb = request.path.rpartition(":")[2] if ":" in request.path and "IamPolicy" in request.path else ""
    return f"{parts[1]}/{kind}{'/policy' if verb else ''}" if found else parts[1]
