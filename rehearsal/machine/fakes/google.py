"""Google's APIs as a machine reaches them: Secret Manager, answered by the local cloud with its own checks of identity."""

from __future__ import annotations

import json
import re

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.web import Reply, Request

SECRETS = "secretmanager.googleapis.com"


class GoogleApis:
    """Answers for `*.googleapis.com`; what the local cloud does not offer to machines is 404."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def answer(self, request: Request) -> Reply:
        """One request with a bearer token."""
        version = re.fullmatch(r"/v1(?:beta1)?/(projects/[^/]+/secrets/[^/]+/versions/[^/]+):access", request.path)
        if request.host != SECRETS or not version or request.method != "GET":
            return _error(404, "NOT_FOUND", f"{request.host} is not offered to machines of the rehearsal.")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not bearer:
            text = "Request is missing required authentication credential. Expected OAuth 2 access token."
            return _error(401, "UNAUTHENTICATED", text)
        status, body = self._bridge.call("secret", bearer=bearer.strip(), resource=version[1])
        return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def _error(code: int, status: str, text: str) -> Reply:
    body = {"error": {"code": code, "message": text, "status": status}}
    return Reply(code, json.dumps(body).encode(), {"Content-Type": "application/json; charset=UTF-8"})
