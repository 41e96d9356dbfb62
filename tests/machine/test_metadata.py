"""The metadata server's answers, without a machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from rehearsal.machine.bridge import BridgeServer
from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.metadata import MetadataServer, render
from rehearsal.machine.fakes.web import Request
from rehearsal.machine.faults import Behaviour
from tests.machine.guest import TestGuest

TREE = TestGuest("#!/bin/sh\n", name="serve").metadata()


@pytest.mark.parametrize(
    ("path", "query", "status", "body"),
    [
        ("instance/name", {}, 200, "serve"),
        ("instance/name", {"alt": "json"}, 200, '"serve"'),
        ("instance/id", {"alt": "json"}, 200, "4242424242"),
        ("instance/attributes/startup-script", {}, 200, "#!/bin/sh\n"),
        ("instance/attributes/", {}, 200, "startup-script\n"),
        ("instance/attributes", {}, 301, ""),
        ("instance/nothing", {}, 404, None),
        ("instance/name/below", {}, 404, None),
        ("project/attributes/", {"recursive": "true"}, 200, "{}"),
        ("instance/network-interfaces/", {}, 200, "0/\n"),
        ("instance/network-interfaces/0/ip", {}, 200, "10.128.0.7"),
        ("instance/attributes/", {"recursive": "true", "alt": "text"}, 200, "startup-script #!/bin/sh\n\n"),
    ],
)
def test_a_node(path: str, query: Mapping[str, str], status: int, body: str | None) -> None:
    reply = render(TREE, path, query)
    assert reply.status == status
    assert body is None or reply.body.decode() == body


def test_recursive_json_has_googles_spelling() -> None:
    document = json.loads(render(TREE, "", {"recursive": "true", "alt": "json"}).body)
    assert document["instance"]["machineType"].endswith("ct6e-standard-1t")
    assert document["instance"]["networkInterfaces"][0]["ip"] == "10.128.0.7"
    assert document["instance"]["attributes"] == {"startup-script": "#!/bin/sh\n"}
    assert document["project"]["numericProjectId"] == 1
    assert document["instance"]["serviceAccounts"]["default"]["email"].startswith("sa@")


class Setup:
    def __init__(self, folder: Path) -> None:
        self.guest = TestGuest("#!/bin/sh\n")
        self.behaviour = Behaviour()
        self.reported: list[tuple[str, str, str]] = []
        (folder / "out").mkdir()
        self.server = BridgeServer(
            folder / "bridge", self.guest, self.behaviour.document, lambda *report: self.reported.append(report)
        )
        bridge = Bridge(folder / "bridge")
        self.record = folder / "out" / "held.jsonl"
        self.answers = MetadataServer(bridge, Holds(bridge, self.record))

    def ask(self, path: str, *, method: str = "GET", body: bytes = b"", flavor: str = "Google", **query: str) -> tuple[int, str]:
        reply = self.answers.answer(Request(method, "metadata", path, query, {"metadata-flavor": flavor}, body))
        return reply.status, reply.body.decode()


@pytest.fixture
def setup(tmp_path: Path) -> Any:
    deep = tmp_path / ("d" * 60) / ("e" * 60)  # longer than a socket's path may be
    deep.mkdir(parents=True)
    made = Setup(deep)
    yield made
    made.server.close()


def test_the_flavor_header_is_demanded(setup: Setup) -> None:
    assert setup.ask("/computeMetadata/v1/instance/name", flavor="")[0] == 403
    assert setup.ask("/computeMetadata/v1//instance//name") == (200, "serve")
    assert setup.ask("/", flavor="") == (200, "computeMetadata/\n")


def test_a_token_of_the_machines_account_and_of_no_other(setup: Setup) -> None:
    status, body = setup.ask("/computeMetadata/v1/instance/service-accounts/default/token")
    assert (status, json.loads(body)["access_token"]) == (200, "ya29.guest")
    assert setup.ask("/computeMetadata/v1/instance/service-accounts/other@p/token")[0] == 404


def test_guest_attributes_are_put_read_and_refused(setup: Setup) -> None:
    path = "/computeMetadata/v1/instance/guest-attributes/flexserve/state"
    assert setup.ask(path)[0] == 404
    assert setup.ask(path, method="PUT", body=b"up")[0] == 200
    assert setup.ask(path) == (200, "up")
    assert setup.reported == [("flexserve", "state", "up")]
    assert setup.ask(path + "/more", method="PUT")[0] == 400
    setup.guest.enabled = False
    assert setup.ask(path, method="PUT", body=b"down")[0] == 403
    assert setup.guest.reported == {"flexserve/state": "up"}
    assert setup.ask("/computeMetadata/v1/instance/name", method="POST")[0] == 405


def test_waiting_ends_with_a_change_of_that_value_only(setup: Setup) -> None:
    setup.guest.attributes.update(a="1", b="1")
    path = "/computeMetadata/v1/instance/attributes/a"
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(setup.ask(path, wait_for_change="true", timeout_sec="30")))
    thread.start()
    setup.guest.set("b", "2")
    thread.join(0.5)
    assert not answers
    setup.guest.set("a", "2")
    thread.join(20)
    assert answers == [(200, "2")]


def test_waiting_ends_at_its_limit_and_at_once_with_an_old_etag(setup: Setup) -> None:
    setup.guest.attributes["a"] = "1"
    path = "/computeMetadata/v1/instance/attributes/a"
    assert setup.ask(path, wait_for_change="true", last_etag="NONE") == (200, "1")
    assert setup.ask(path, wait_for_change="true", timeout_sec="0.1") == (200, "1")


def test_held_time_is_recorded_once_a_power_on(setup: Setup) -> None:
    setup.behaviour.holds["load"] = 0.05
    for _ in range(2):
        setup.ask("/rehearsal/hold/load", flavor="")
    setup.ask("/rehearsal/hold/compile", flavor="")
    lines = [json.loads(line) for line in setup.record.read_text().splitlines()]
    assert [line["what"] for line in lines] == ["load"]
    assert lines[0]["seconds"] >= 0.05
    behaviour = json.loads(setup.ask("/rehearsal/behaviour", flavor="")[1])
    assert cast("dict[str, str]", behaviour["faults"])["vllm"] == ""
