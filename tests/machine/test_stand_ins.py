"""Hub, registry, DNS, package mirror and Secret Manager as stand-ins, without a machine."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rehearsal.machine.fakes import dns, google, hub, packages, registry, web
from rehearsal.machine.fakes.web import Reply, Request, Reset, ranged
from rehearsal.machine.faults import Behaviour, MachineFaults
from tests.machine.guest import TestGuest

MODEL = "google/gemma-4-E2B-it"
COMMIT = hub.revision(MODEL)
WEIGHTS = f"/{MODEL}/resolve/{COMMIT}/model.safetensors"


class Wanted:
    """A bridge that answers from here."""

    def __init__(self, behaviour: Behaviour, guest: TestGuest | None = None) -> None:
        self._behaviour = behaviour
        self._guest = guest or TestGuest()

    def behaviour(self) -> Mapping[str, Any]:
        return self._behaviour.document()

    def fault(self, part: str) -> str:
        return str(getattr(self._behaviour.faults, part))

    def call(self, what: str, **arguments: Any) -> Any:
        assert what == "secret"
        return self._guest.access_secret(**arguments)


class NoHolds:
    def hold(self, what: str) -> float:
        return 0.0


def request(host: str, path: str, *, method: str = "GET", query: Mapping[str, str] | None = None, **headers: str) -> Request:
    return Request(method, host, path, query or {}, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def make_hub(**settings: Any) -> hub.Hub:
    faults = MachineFaults(hub=settings.pop("fault", ""))
    return hub.Hub(Wanted(Behaviour(faults=faults, **settings)), NoHolds())  # type: ignore[arg-type]


def follow(server: hub.Hub, path: str, **headers: str) -> Reply:
    """What curl -L gets."""
    reply = server.answer(request(hub.HOST, path, **headers))
    if reply.status != 302:
        return reply
    address, _, query = reply.headers["Location"].partition("?")
    host, _, rest = address.removeprefix("https://").partition("/")
    pairs = dict(pair.split("=") for pair in query.split("&"))
    return server.answer(request(host, "/" + rest, query=pairs, **{k: v for k, v in headers.items() if k == "range"}))


def test_a_model_names_its_commit_and_its_files() -> None:
    document = json.loads(make_hub().answer(request(hub.HOST, f"/api/models/{MODEL}/revision/main")).body)
    assert document["sha"] == COMMIT
    assert "model.safetensors" in [sibling["rfilename"] for sibling in document["siblings"]]
    assert json.loads(make_hub().answer(request(hub.HOST, f"/api/models/{MODEL}/revision/{COMMIT}")).body)["sha"] == COMMIT


def test_an_unknown_revision_or_file_is_named_in_the_error_code() -> None:
    reply = make_hub().answer(request(hub.HOST, f"/api/models/{MODEL}/revision/v9"))
    assert (reply.status, reply.headers["X-Error-Code"]) == (404, "RevisionNotFound")
    reply = make_hub().answer(request(hub.HOST, f"/{MODEL}/resolve/main/pytorch_model.bin"))
    assert (reply.status, reply.headers["X-Error-Code"]) == (404, "EntryNotFound")


def test_weights_come_from_the_download_network_whole_and_in_parts() -> None:
    server = make_hub()
    first = server.answer(request(hub.HOST, WEIGHTS))
    assert (first.status, first.headers["X-Repo-Commit"]) == (302, COMMIT)
    whole = follow(server, WEIGHTS).body
    assert first.headers["X-Linked-ETag"] == f'"{hashlib.sha256(whole).hexdigest()}"'
    assert first.headers["X-Linked-Size"] == str(len(whole))
    rest = follow(server, WEIGHTS, range="bytes=1000000-")
    assert (rest.status, rest.body) == (206, whole[1000000:])
    assert follow(server, WEIGHTS, range=f"bytes={len(whole)}-").status == 416


@pytest.mark.parametrize(
    ("settings", "token", "status"),
    [
        ({}, "", 200),
        ({}, "hf_anything", 200),
        ({}, "not-a-token", 401),
        ({"gated_models": [MODEL]}, "", 401),
        ({"gated_models": [MODEL]}, "hf_anything", 200),
        ({"hub_tokens_sha256": [hashlib.sha256(b"hf_right").hexdigest()]}, "hf_right", 200),
        ({"hub_tokens_sha256": [hashlib.sha256(b"hf_right").hexdigest()]}, "hf_wrong", 401),
        ({"fault": "throttled"}, "hf_anything", 429),
        ({"fault": "throttled-anonymous"}, "", 429),
        ({"fault": "throttled-anonymous"}, "hf_anything", 200),
        ({"fault": "unauthorized"}, "hf_anything", 401),
        ({"fault": "forbidden"}, "hf_anything", 403),
    ],
)
def test_who_gets_a_file(settings: dict[str, Any], token: str, status: int) -> None:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    reply = follow(make_hub(**settings), WEIGHTS, **headers)
    assert reply.status == status
    if status == 429:
        assert "Retry-After" in reply.headers


def test_a_cut_transfer_is_cut_once_and_down_is_a_reset() -> None:
    server = make_hub(fault="cut")
    assert [follow(server, WEIGHTS).fault for _ in range(2)] == ["cut", ""]
    with pytest.raises(Reset):
        make_hub(fault="down").answer(request(hub.HOST, WEIGHTS))


def test_the_same_model_is_the_same_bytes_and_a_valid_safetensors_file() -> None:
    data = hub.content(MODEL, "model.safetensors")
    hub.content.cache_clear()
    assert hub.content(MODEL, "model.safetensors") == data
    assert hub.content("other/model", "model.safetensors") != data
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert 8 + length + header["stand_in.weight"]["data_offsets"][1] == len(data)


@pytest.mark.parametrize(
    ("name", "kind", "code", "address"),
    [
        ("metadata.google.internal", 1, 0, "169.254.169.254"),
        ("SecretManager.googleapis.com", 1, 0, "199.36.153.8"),
        ("metadata.google.internal", 28, 0, None),
        ("googleapis.com", 1, 3, None),
        ("example.org", 1, 3, None),
    ],
)
def test_names(name: str, kind: int, code: int, address: str | None) -> None:
    hosts = {"metadata.google.internal": dns.METADATA, "*.googleapis.com": dns.GOOGLE_APIS}
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    packet = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)
    reply = dns.reply(packet, hosts)
    identifier, flags, _, answers = struct.unpack("!HHHH", reply[:8])
    assert (identifier, flags & 15, answers) == (7, code, 1 if address else 0)
    if address:
        assert ".".join(map(str, reply[-4:])) == address


def test_docker_hub_asks_for_a_token_and_counts_pulls() -> None:
    server = registry.Registry(Wanted(Behaviour()), NoHolds(), "127.0.0.1:1")  # type: ignore[arg-type]
    reply = server.answer(request(registry.HUB, "/v2/"))
    assert (reply.status, 'realm="https://auth.docker.io/token"' in reply.headers["Www-Authenticate"]) == (401, True)
    assert json.loads(server.answer(request(registry.AUTH, "/token")).body)["token"]
    throttled = registry.Registry(Wanted(Behaviour(MachineFaults(registry="throttled"))), NoHolds(), "127.0.0.1:1")  # type: ignore[arg-type]
    reply = throttled.answer(request(registry.HUB, "/v2/vllm/vllm-tpu/manifests/v1", authorization="Bearer x"))
    assert (reply.status, json.loads(reply.body)["errors"][0]["code"]) == (429, "TOOMANYREQUESTS")


def test_the_mirror_serves_its_folder_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.deb").write_bytes(b"package")
    (tmp_path / "secret").write_text("no")

    def ask(path: str, fault: Any = "", host: str = packages.HOST) -> int:
        wanted = Wanted(Behaviour(MachineFaults(packages=fault)))
        return packages.Packages(wanted, NoHolds(), tmp_path / "repo").answer(request(host, path)).status  # type: ignore[arg-type]

    assert [ask("/a.deb"), ask("/./a.deb"), ask("/../secret"), ask("/a.deb", host="other")] == [200, 200, 404, 404]
    assert ask("/a.deb", "missing") == 404
    with pytest.raises(Reset):
        ask("/a.deb", "down")


def test_secret_manager_wants_a_bearer_and_passes_the_clouds_answer_on() -> None:
    guest = TestGuest()
    guest.secret = "hf_value"
    server = google.GoogleApis(Wanted(Behaviour(), guest))  # type: ignore[arg-type]
    path = "/v1/projects/p/secrets/s/versions/latest:access"
    assert server.answer(request(google.SECRETS, path)).status == 401
    assert server.answer(request(google.SECRETS, path, authorization="Bearer other")).status == 401
    reply = server.answer(request(google.SECRETS, path, authorization="Bearer ya29.guest"))
    assert base64.b64decode(json.loads(reply.body)["payload"]["data"]) == b"hf_value"
    assert server.answer(request("compute.googleapis.com", path, authorization="Bearer ya29.guest")).status == 404


@pytest.mark.parametrize(
    ("header", "status", "body"),
    [("", 200, b"0123456789"), ("bytes=2-4", 206, b"234"), ("bytes=7-", 206, b"789"), ("bytes=5-99", 206, b"56789"),
     ("bytes=10-", 416, b""), ("bytes=x", 200, b"0123456789")],
)  # fmt: skip
def test_ranges(header: str, status: int, body: bytes) -> None:
    reply = ranged(b"0123456789", request("h", "/", range=header), {})
    assert (reply.status, reply.body) == (status, body)


@pytest.mark.parametrize("switch", registry.IN_PHASE)
def test_a_layer_waits_until_the_fault_of_the_image_phase_has_happened(monkeypatch, switch):
    backend = web.serve("127.0.0.1", 0, lambda _: Reply(200, bytes(registry.LARGE + 1)))
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    behaviour = Behaviour(MachineFaults(**{switch: "image"}))
    server = registry.Registry(Wanted(behaviour), NoHolds(), f"127.0.0.1:{backend.server_address[1]}")  # type: ignore[arg-type]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            setattr(behaviour.faults, switch, "")

    monkeypatch.setattr(registry.time, "sleep", sleep)
    try:
        reply = server.answer(request("ghcr.io", "/v2/a/b/blobs/sha256:00"))
        assert len(slept) == 3 and sum(map(len, reply.chunks or ())) == registry.LARGE + 1
    finally:
        backend.shutdown()
        backend.server_close()
