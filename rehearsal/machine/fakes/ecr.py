"""ECR's registries under their real names: a login that the cloud gave, in front of a docker-registry that may be pushed to.

A repository of an account is kept as `ACCOUNT/NAME`: what one account pushes no other sees under its own name.
"""

from __future__ import annotations

import http.client
import json
import re

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.registry import LARGE, chunks
from rehearsal.machine.fakes.web import Reply, Request, Reset

HOST = re.compile(r"(\d{12})\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?")
PATH = re.compile(r"/v2/(.+?)/(manifests|blobs|tags)/(.*)")
PASSED = ("accept", "range", "content-type", "content-range")
NOT_BACK = ("content-length", "connection", "date", "server", "transfer-encoding")
CODES = {401: "UNAUTHORIZED", 403: "DENIED", 404: "NAME_UNKNOWN"}


class Ecr:
    """Answers for `*.dkr.ecr.*.amazonaws.com`. Faults of `registry`: down, throttled."""

    def __init__(self, bridge: Bridge, holds: Holds, backend: str) -> None:
        self._bridge = bridge
        self._holds = holds
        self._backend = backend

    def answer(self, request: Request) -> Reply:
        """One request of a container engine."""
        fault = self._bridge.fault("registry")
        if fault == "down":
            raise Reset
        host, path = HOST.fullmatch(request.host), PATH.fullmatch(request.path)
        account, repository = host[1] if host else "", path[1] if path else ""
        push = request.method not in ("GET", "HEAD")
        said = request.headers.get("authorization", "")
        asked = {"authorization": said, "account": account, "repository": repository, "push": push}
        status, why = self._bridge.call("container-may", **asked) if said else (401, "no basic auth credentials")
        if status == 200 and path is None:
            return Reply(200, b"{}", {"Docker-Distribution-Api-Version": "registry/2.0"})
        if status != 200 or path is None:
            return _refused(request.host, status, why)
        if fault == "throttled" and path[2] == "manifests":
            return _error(429, "TOOMANYREQUESTS", "Rate exceeded")
        if request.method == "PUT" and path[2] == "manifests" and self._is_taken(account, repository, path[3]):
            taken = f"The image tag '{path[3]}' already exists in the '{repository}' repository"
            return _error(400, "TAG_INVALID", f"{taken} and cannot be overwritten because the tag is immutable.")
        return self._forward(request, account, f"/v2/{account}/{path[1]}/{path[2]}/{path[3]}")

    def _is_taken(self, account: str, repository: str, tag: str) -> bool:
        if tag.startswith("sha256:") or not self._bridge.call("container-immutable", account=account, repository=repository):
            return False
        connection = self._connect()
        connection.request("HEAD", f"/v2/{account}/{repository}/manifests/{tag}", headers={"accept": "*/*"})
        taken = connection.getresponse().status == 200
        connection.close()
        return taken

    def _connect(self) -> http.client.HTTPConnection:
        host, _, port = self._backend.partition(":")
        return http.client.HTTPConnection(host, int(port), timeout=60)

    def _forward(self, request: Request, account: str, path: str) -> Reply:
        query = request.target.partition("?")[2]
        if "mount=" in query:  # ECR mounts no layer of another repository: it is pushed
            query = ""
        headers = {name: request.headers[name] for name in PASSED if name in request.headers}
        connection = self._connect()
        connection.putrequest(request.method, f"{path}?{query}" if query else path, skip_host=True, skip_accept_encoding=True)
        for name, value in {
            **headers,
            "Host": request.host,
            "X-Forwarded-Proto": "https",
            "Content-Length": str(len(request.body)),
        }.items():
            connection.putheader(name, value)
        connection.endheaders(request.body)
        answer = connection.getresponse()
        length = int(answer.headers.get("Content-Length") or 0)
        kept = {name: value.replace(f"/v2/{account}/", "/v2/", 1) if name == "Location" else value
                for name, value in answer.headers.items() if name.lower() not in NOT_BACK}  # fmt: skip
        if "/blobs/" in path and request.method == "GET" and length > LARGE:
            self._holds.hold("image")
        return Reply(answer.status, b"", kept, chunks=chunks(connection, answer), length=length)


def _refused(host: str, status: int, why: str) -> Reply:
    challenge = {"Www-Authenticate": f'Basic realm="https://{host}/",service="ecr.amazonaws.com"'} if status == 401 else {}
    return _error(status, CODES.get(status, "DENIED"), why, challenge)


def _error(status: int, code: str, text: str, headers: dict[str, str] | None = None) -> Reply:
    base = {"Docker-Distribution-Api-Version": "registry/2.0", "Content-Type": "application/json", **(headers or {})}
    return Reply(status, json.dumps({"errors": [{"code": code, "message": text}]}).encode(), base)
