"""EC2's metadata service: sessions (version 2) for everybody, version 1 for cloud-init alone.

The real cloud-init of a machine that does not look like EC2 asks without a session; everything else has to bring one.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.metadata import find
from rehearsal.machine.fakes.web import Reply, Request

LONGEST_SESSION_S = 21_600
OLD_CLIENTS = ("Cloud-Init/", "python-requests/")
VERSION = re.compile(r"/(latest|\d{4}-\d\d-\d\d)/(.*)")


class Imds:
    """Answers requests on 169.254.169.254:80. The sessions live as long as the stand-in: until the machine is off."""

    def __init__(self, bridge: Bridge, holds: Holds) -> None:
        self._bridge = bridge
        self._holds = holds
        self._sessions: set[str] = set()

    def answer(self, request: Request) -> Reply:
        """One request; never raises for what a guest may ask."""
        path = re.sub(r"/{2,}", "/", request.path)
        if path.startswith("/rehearsal/"):
            return self._rehearsal(path.removeprefix("/rehearsal/"))
        if request.headers.get("x-forwarded-for"):
            return _error(403)
        found = VERSION.fullmatch(path)
        if found is None:
            return _error(404)
        if found[2] == "api/token":
            return self._session(request)
        if request.method not in ("GET", "HEAD"):
            return _error(405)
        old = request.headers.get("user-agent", "").startswith(OLD_CLIENTS)
        if not old and request.headers.get("x-aws-ec2-metadata-token") not in self._sessions:
            return _error(401)
        return self._value(found[2])

    def _session(self, request: Request) -> Reply:
        lifetime = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if request.method != "PUT":
            return _error(405)
        if not lifetime.isdigit() or not 1 <= int(lifetime) <= LONGEST_SESSION_S:
            return _error(400)
        session = secrets.token_urlsafe(40)
        self._sessions.add(session)
        return Reply(200, session.encode(), {"Content-Type": "text/plain", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds": lifetime})

    def _value(self, path: str) -> Reply:
        if path == "user-data":
            data = base64.b64decode(self._bridge.call("ec2-user-data"))
            return Reply(200, data, {"Content-Type": "application/octet-stream"}) if data else _error(404)
        try:
            tree = self._bridge.call("ec2-metadata")
        except LookupError:  # the instance is gone: its stand-ins go with the next moment
            return _error(404)
        if not path:
            return _text("\n".join([*tree, "user-data"]))
        node = find(tree, path)
        if node is None:
            return _error(404)
        return _text(listing(node) if isinstance(node, Mapping) else str(node))

    def _rehearsal(self, what: str) -> Reply:
        """Not AWS's: how stand-ins in the machine ask what is wanted of them."""
        if what.startswith("hold/"):
            return Reply(200, json.dumps({"seconds": self._holds.hold(what.removeprefix("hold/"))}).encode())
        if what.startswith("fault/"):
            return _text(self._bridge.fault(what.removeprefix("fault/")))
        return Reply(200, json.dumps(self._bridge.behaviour()).encode()) if what == "behaviour" else _error(404)


def listing(node: Mapping[str, object]) -> str:
    """A folder's entries, a line each; folders end in a slash. The last line has no end."""
    return "\n".join(f"{key}/" if isinstance(value, Mapping) else key for key, value in node.items())


def _text(body: str) -> Reply:
    return Reply(200, body.encode(), {"Content-Type": "text/plain", "Server": "EC2ws"})


def _error(status: int) -> Reply:
    return Reply(status, b"", {"Content-Type": "text/html", "Server": "EC2ws"})
