"""What AWS puts beside a container: the keys of its role, and no metadata of the machine below it."""

from __future__ import annotations

import json

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.web import Answer, Reply, Request

CREDENTIALS_HOST = "169.254.170.2"
FOLDER = "/v2/credentials/"


class Credentials:
    """Answers on 169.254.170.2:80 for `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/v2/credentials/NAME`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def answer(self, request: Request) -> Reply:
        """The keys, or 404 while the role has none."""
        if request.method != "GET" or not request.path.startswith(FOLDER):
            return Reply(404)
        try:
            found = self._bridge.call("container-credentials", name=request.path.removeprefix(FOLDER))
        except LookupError as error:
            return Reply(404, json.dumps({"code": "NotFound", "message": str(error)}).encode())
        return Reply(200, json.dumps(found).encode(), {"Content-Type": "application/json"})


def only_stand_ins(answer: Answer) -> Answer:
    """Of 169.254.169.254 only what stand-ins ask of each other: a container of SageMaker's sees no instance."""

    def answered(request: Request) -> Reply:
        return answer(request) if request.path.startswith("/rehearsal/") else Reply(404)

    return answered
