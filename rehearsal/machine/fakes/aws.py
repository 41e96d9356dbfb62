"""AWS's APIs as a machine reaches them, under their real names: handed to the local cloud, which checks the signature."""

from __future__ import annotations

import base64

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.web import Reply, Request

NAMES = ("*.amazonaws.com",)
LARGE = 100_000  # bytes from which a download is the kept build, and not a script
NOT_PASSED_ON = ("content-length", "transfer-encoding", "connection", "date", "server")


class Aws:
    """Answers for `*.amazonaws.com`."""

    def __init__(self, bridge: Bridge, holds: Holds, what: str = "ec2-service") -> None:
        self._bridge = bridge
        self._holds = holds
        self._what = what

    def answer(self, request: Request) -> Reply:
        """One request as it was made, so that what was signed is what is checked."""
        answer = self._bridge.call(
            self._what,
            host=request.host,
            method=request.method,
            path=request.target,
            headers=dict(request.headers),
            body=base64.b64encode(request.body).decode(),
        )
        body = base64.b64decode(answer["body"])
        if request.method == "GET" and request.host.startswith("s3.") and len(body) >= LARGE:
            self._holds.hold("build")
        headers = {name: value for name, value in answer["headers"].items() if name.lower() not in NOT_PASSED_ON}
        return Reply(int(answer["status"]), body, headers)
