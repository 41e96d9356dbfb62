"""Compute Engine's metadata server, as the guest agent, the script runner, cloud SDKs and a script's curl use it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.web import Reply, Request

PREFIX = "/computeMetadata/v1/"
FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
NUMBERS = {"id", "numeric-project-id"}
VERBATIM = {"attributes", "service-accounts"}  # below these, keys are names and not ours to change
MAX_WAIT = 3600.0


def find(tree: object, path: str) -> object | None:
    """The node at `path` (empty parts are ignored), or None."""
    node: object = tree
    for part in filter(None, path.split("/")):
        if isinstance(node, Mapping):
            node = node.get(part)
        elif isinstance(node, list | tuple) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
        if node is None:
            return None
    return node


def listing(node: object) -> str:
    """A folder's entries, a line each; folders end in a slash."""
    pairs = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list | tuple) else ()
    return "".join(f"{key}/\n" if _folder(value) else f"{key}\n" for key, value in pairs)


def as_json(node: object, key: str = "", *, verbatim: bool = False) -> object:
    """What `alt=json` gives: names in camelCase, numbered folders as arrays, ids as numbers."""
    if isinstance(node, Mapping):
        if node and all(str(name) == str(index) for index, name in enumerate(node)):
            return [as_json(value) for value in node.values()]
        return {
            str(name) if verbatim else _camel(str(name)): as_json(value, str(name), verbatim=not verbatim and name in VERBATIM)
            for name, value in node.items()
        }
    if isinstance(node, list | tuple):
        return [as_json(value) for value in node]
    return int(node) if key in NUMBERS and isinstance(node, str) and node.isdigit() else node


def as_text(node: object, path: str = "") -> str:
    """What `recursive=true&alt=text` gives: a line for each value, its path and itself."""
    if not _folder(node):
        return f"{path} {node}\n"
    pairs = node.items() if isinstance(node, Mapping) else enumerate(node)  # type: ignore[arg-type]
    return "".join(as_text(value, f"{path}/{key}" if path else str(key)) for key, value in pairs)


def render(tree: object, path: str, query: Mapping[str, str]) -> Reply:
    """The answer for a node of the tree, without waiting."""
    node = find(tree, path)
    if node is None:
        return _error(404, "The requested URL was not found on this server.")
    recursive = query.get("recursive", "").lower() == "true"
    if _folder(node):
        if path and not path.endswith("/") and not recursive:
            return Reply(301, b"", {**FLAVOR, "Location": f"{PREFIX}{path}/"})
        if recursive and query.get("alt", "json") != "text":
            return _document(as_json(node, path.strip("/").rpartition("/")[2], verbatim=_is_verbatim(path)))
        return _text(as_text(node) if recursive else listing(node))
    if query.get("alt") == "json":
        return _document(as_json(node, path.rpartition("/")[2]))
    return _text(str(node))


class MetadataServer:
    """Answers requests on 169.254.169.254:80. `waited` is how its waits are bounded."""

    def __init__(self, bridge: Bridge, holds: Holds) -> None:
        self._bridge = bridge
        self._holds = holds
        self._attributes: dict[str, dict[str, str]] = {}

    def answer(self, request: Request) -> Reply:
        """One request; never raises for what a guest may ask."""
        path = re.sub(r"/{2,}", "/", request.path)
        if path.startswith("/rehearsal/"):
            return self._rehearsal(path)
        if path == "/":
            return _text("computeMetadata/\n")
        if request.headers.get("x-forwarded-for"):
            return _error(403, "Metadata server refuses requests with the header X-Forwarded-For.")
        if request.headers.get("metadata-flavor") != "Google":
            return _error(403, "Missing required header: Metadata-Flavor: Google")
        if path in ("/computeMetadata", "/computeMetadata/v1"):
            return Reply(301, b"", {**FLAVOR, "Location": path + "/"})
        if not path.startswith(PREFIX):
            return _text("v1/\n") if path == "/computeMetadata/" else _error(404, "Not found.")
        inner = path.removeprefix(PREFIX)
        if inner.startswith("instance/guest-attributes/"):
            return self._guest_attributes(request, inner.removeprefix("instance/guest-attributes/"))
        if request.method not in ("GET", "HEAD"):
            return _error(405, f"Method {request.method} is not allowed here.")
        account = re.fullmatch(r"instance/service-accounts/([^/]+)/(token|identity)", inner)
        if account:
            return self._account(account[1], account[2], request.query)
        return self._value(inner, request.query)

    def _value(self, path: str, query: Mapping[str, str]) -> Reply:
        now = self._bridge.call("metadata", etag="", timeout=0.0)
        reply = render(now["tree"], path, query)
        if query.get("wait_for_change", "").lower() != "true":
            return reply
        last = query.get("last_etag") or reply.headers.get("ETag", "")
        until = time.monotonic() + float(query.get("timeout_sec") or MAX_WAIT)
        while reply.headers.get("ETag") == last and (left := until - time.monotonic()) > 0:
            now = self._bridge.call("metadata", etag=now["etag"], timeout=min(left, 300.0))
            reply = render(now["tree"], path, query)
        return reply

    def _account(self, account: str, what: str, query: Mapping[str, str]) -> Reply:
        if what == "identity":
            return _error(404, "The rehearsal signs no identity tokens.")
        tree = self._bridge.call("metadata", etag="", timeout=0.0)["tree"]
        known = find(tree, "instance/service-accounts")
        if isinstance(known, Mapping) and account not in known:
            return _error(404, f"No service account {account} here.")
        scopes = [scope for scope in query.get("scopes", "").split(",") if scope]
        try:
            token, seconds = self._bridge.call("token", scopes=scopes)
        except LookupError:
            return _error(404, "This instance has no service account.")
        return _document({"access_token": token, "expires_in": seconds, "token_type": "Bearer"})

    def _guest_attributes(self, request: Request, path: str) -> Reply:
        parts = [part for part in path.split("/") if part]
        if request.method == "PUT" and len(parts) == 2:
            value = request.body.decode(errors="replace")
            try:
                self._bridge.call("guest_attribute", namespace=parts[0], key=parts[1], value=value)
            except ValueError as error:
                return _error(403, str(error) or "Guest attributes endpoint access is disabled.")
            self._attributes.setdefault(parts[0], {})[parts[1]] = value
            return _text("")
        if request.method in ("GET", "HEAD"):
            return render(self._attributes, path, request.query)
        return _error(400 if request.method == "PUT" else 405, "Guest attributes are NAMESPACE/KEY.")

    def _rehearsal(self, path: str) -> Reply:
        """Not Google's: how the stand-in for vLLM asks what is wanted of it."""
        what = path.removeprefix("/rehearsal/")
        if what.startswith("hold/"):
            return _document({"seconds": self._holds.hold(what.removeprefix("hold/"))})
        return _document(self._bridge.behaviour()) if what == "behaviour" else _error(404, "Not found.")


def _is_verbatim(path: str) -> bool:
    return path.strip("/").rpartition("/")[2] in VERBATIM


def _folder(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _text(body: str) -> Reply:
    return _with_etag(body.encode(), "application/text")


def _document(value: Any) -> Reply:
    return _with_etag(json.dumps(value).encode(), "application/json")


def _with_etag(body: bytes, kind: str) -> Reply:
    return Reply(200, body, {**FLAVOR, "Content-Type": kind, "ETag": hashlib.sha1(body).hexdigest()[:16]})


def _error(status: int, text: str) -> Reply:
    page = f"<!DOCTYPE html>\n<html lang=en>\n<title>Error {status}</title>\n<p>{text}</p>\n</html>\n"
    return Reply(status, page.encode(), {**FLAVOR, "Content-Type": "text/html; charset=UTF-8"})
