"""An image's config, read from a registry that is a dictionary behind HTTP."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from infra.clouds import image_config
from infra.clouds.registry import OVERRIDE
from verdict.errors import BadConfig, CannotTell, NoAccess


class Registry:
    """`content` by path below `/v2/acme/vllm/`. `token`: what it asks for first."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.token = self.gives = ""
        self.base = ""

    def put(self, kind: str, document: Any, tag: str = "") -> str:
        data = json.dumps(document).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        for name in filter(None, (digest, tag)):
            self.content[f"{kind}/{name}"] = data
        return digest

    def image(self, processor: str, *env: str, tag: str = "") -> str:
        config = self.put("blobs", {"architecture": processor, "config": {"Env": list(env)}})
        return self.put("manifests", {"schemaVersion": 2, "config": {"digest": config}, "layers": []}, tag)

    def index(self, tag: str, **images: str) -> str:
        entries = [{"digest": digest, "platform": {"os": "linux", "architecture": name}} for name, digest in images.items()]
        return self.put("manifests", {"schemaVersion": 2, "manifests": entries}, tag)

    def read(self, reference: str, processor: str = "arm64") -> Any:
        return image_config.read("acme/vllm", reference, processor, environ={OVERRIDE: self.base}, sleep=lambda _: None)


@pytest.fixture
def registry() -> Iterator[Registry]:
    state = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/token"):
                self.answer(200, json.dumps({"token": state.gives or state.token}).encode())
            elif state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
                self.answer(401, b"", ("WWW-Authenticate", f'Bearer realm="{state.base}/token",service="s",scope="p"'))
            else:
                path = self.path.removeprefix("/v2/acme/vllm/")
                state.asked.append(path.partition("/")[0])
                self.answer(200 if path in state.content else 404, state.content.get(path, b"{}"))

        def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (("Content-Length", str(len(body))), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.base = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_plain_image_tells_its_processor_cuda_and_cards(registry):
    digest = registry.image("arm64", "CUDA_VERSION=13.0.1", "TORCH_CUDA_ARCH_LIST=7.5 8.0", tag="x86-only")
    facts = registry.read("x86-only")  # the tag says something else: nobody believes it
    assert (facts.digest, facts.processors, facts.cuda, facts.cards) == (digest, ("arm64",), "13.0.1", ("7.5", "8.0"))
    assert registry.read(digest) == facts


def test_of_an_index_the_image_for_the_machine_is_read(registry):
    arm = registry.image("arm64", "TORCH_CUDA_ARCH_LIST=7.5")
    registry.index("both", amd64=registry.image("amd64", "TORCH_CUDA_ARCH_LIST=9.0"), arm64=arm, unknown="sha256:" + "0" * 64)
    assert registry.read("both").digest == arm and registry.read("both").cards == ("7.5",)
    assert registry.read("both", "amd64").cards == ("9.0",)


def test_an_index_without_the_machines_processor_says_which_there_are(registry):
    digest = registry.index("many", amd64=registry.image("amd64"), s390x=registry.image("s390x"))
    facts = registry.read("many")
    assert (facts.digest, facts.processors, facts.cards) == (digest, ("amd64", "s390x"), ())
    assert registry.asked == ["manifests"]


def test_a_token_is_fetched_once(registry):
    registry.token = "t0ken"
    registry.image("arm64", tag="t")
    assert registry.read("t").processors == ("arm64",) and registry.asked == ["manifests", "blobs"]


def test_content_that_has_another_digest_is_not_believed(registry):
    digest = registry.image("arm64", tag="t")
    registry.content[f"manifests/{digest}"] = registry.content["manifests/t"] + b" "
    with pytest.raises(CannotTell, match="is not sha256:"):
        registry.read(digest)


@pytest.mark.parametrize("body", [b"[]", b"<html>", b"\xff"])
def test_what_is_no_document_cannot_be_told(registry, body):
    registry.content["manifests/t"] = body
    with pytest.raises(CannotTell):
        registry.read("t")


def test_a_helm_chart_is_no_image(registry):
    registry.put("manifests", {"schemaVersion": 2, "layers": []}, "t")
    with pytest.raises(CannotTell, match="no container image"):
        registry.read("t")


def test_a_tag_that_is_not_there_is_named(registry):
    with pytest.raises(BadConfig, match="has no t"):
        registry.read("t")


def test_a_registry_that_takes_no_anonymous_token_is_no_access(registry):
    registry.token, registry.gives = "the one", "another"
    registry.image("arm64", tag="t")
    with pytest.raises(NoAccess):
        registry.read("t")
