"""Container registries under their real names: TLS and the token dance in front of a real docker-registry."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.web import Reply, Request, Reset

HUB = "registry-1.docker.io"
AUTH = "auth.docker.io"
NAMES = (HUB, AUTH, "ghcr.io", "quay.io", "nvcr.io", "public.ecr.aws", "us-docker.pkg.dev")
LARGE = 1024 * 1024


IN_PHASE = ("power_cut_in", "docker_dies_in", "disk_full_in")
FAULT_S = 60.0
MARK = "X-Flexserve-Rehearsal"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OTEL_TRACES_EXPORTER": "none"}


def command(root: Path, storage: Path, address: str, folder: Path, name: str = "registry", mark: str = "") -> list[str]:
    """How to start docker-registry out of the machine's root (nothing of the host's): it serves `storage` on host:port.

    Its configuration goes to `folder`. `mark`: each answer carries it, so that its owner knows it.
    """
    config = folder / f"{name}.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n"
        f"http: {{addr: '{address}', headers: {{{MARK}: ['{mark}']}}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {json.dumps(str(storage))}}}, cache: {{blobdescriptor: inmemory}}}}\n"
    )
    loader = next(root.glob("lib*/ld-linux-*"))
    libraries = ":".join(str(found) for found in (root / "usr/lib").glob("*-linux-gnu"))
    return [str(loader), "--library-path", libraries, str(root / "usr/bin/docker-registry"), "serve", str(config)]


def start(root: Path, storage: Path, address: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start it beside the stand-ins of a machine."""
    argv = command(root, storage, address, folder)
    with (folder / "registry.log").open("ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT)


class Registry:
    """Answers for every name in `NAMES`. Faults of `registry`: down, throttled, cut."""

    def __init__(self, bridge: Bridge, holds: Holds, backend: str) -> None:
        self._bridge = bridge
        self._holds = holds
        self._backend = backend
        self._cut: set[str] = set()

    def answer(self, request: Request) -> Reply:
        """One request of a container engine."""
        fault = self._bridge.fault("registry")
        if fault == "down":
            raise Reset
        if request.host == AUTH:
            return _document(200, {"token": "stand-in", "access_token": "stand-in", "expires_in": 300})
        if request.method not in ("GET", "HEAD"):
            return _denied(401, "UNAUTHORIZED", "authentication required")
        if request.host == HUB and not request.headers.get("authorization"):
            challenge = f'Bearer realm="https://{AUTH}/token",service="registry.docker.io"'
            repository = re.match(r"/v2/(.+)/(?:manifests|blobs)/", request.path)
            if repository:
                challenge += f',scope="repository:{repository[1]}:pull"'
            return _denied(401, "UNAUTHORIZED", "authentication required", {"Www-Authenticate": challenge})
        if fault == "throttled" and "/manifests/" in request.path:
            text = "You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"
            return _denied(429, "TOOMANYREQUESTS", text, {"Retry-After": "60"})
        return self._forward(request, fault)

    def _forward(self, request: Request, fault: str) -> Reply:
        host, _, port = self._backend.partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        headers = {name: request.headers[name] for name in ("accept", "range") if name in request.headers}
        connection.request(request.method, request.path, headers=headers)
        answer = connection.getresponse()
        length = int(answer.headers.get("Content-Length") or 0)
        kept = {name: value for name, value in answer.headers.items()
                if name.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding")}  # fmt: skip
        reply = Reply(answer.status, b"", kept, chunks=chunks(connection, answer), length=length)
        if "/blobs/" in request.path and request.method == "GET" and length > LARGE:
            self._holds.hold("image")
            self._await_fault()
            if fault == "cut" and request.path not in self._cut:
                self._cut.add(request.path)
                reply.fault = "cut"
        return reply

    def _await_fault(self) -> None:
        """Until what is to happen in the phase `image` has happened, for a while: a pull must not be over before."""
        until = time.monotonic() + FAULT_S
        while time.monotonic() < until and any(self._bridge.fault(switch) == "image" for switch in IN_PHASE):
            time.sleep(0.1)


def chunks(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The answer's body, read as it is sent on; the connection ends with it."""
    try:
        while data := answer.read(256 * 1024):
            yield data
    finally:
        connection.close()


def _document(status: int, value: object, headers: dict[str, str] | None = None) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})


def _denied(status: int, code: str, text: str, headers: dict[str, str] | None = None) -> Reply:
    base = {"Docker-Distribution-Api-Version": "registry/2.0", **(headers or {})}
    return _document(status, {"errors": [{"code": code, "message": text, "detail": None}]}, base)
