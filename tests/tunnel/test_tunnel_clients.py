"""OpenAI's client, curl and a page's event stream through each form of the tunnel; to a booted machine: in `tests/rehearsal`.

There is no browser here: node's `fetch` reads the stream, and `browser.py` sends what a browser sends for a page of another origin.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flexserve.tunnel.dial import tunnel
from flexserve.tunnel.options import Options
from infra.access import Access, Iap, SageMaker, Ssm
from rehearsal.relay import Relay
from rehearsal.ssm import Service
from tests.tunnel import browser, clients
from tests.tunnel.fake_runtime import FakeRuntime
from tests.tunnel.openai_server import MODEL, openai_server
from tests.tunnel.test_tunnel_ssm_plugin import found as plugin
from tests.tunnel.test_tunnel_ssm_plugin import without_plugin


@contextmanager
def through_iap() -> Iterator[tuple[Access, Options]]:
    import ssl

    with openai_server() as port, Relay(lambda *_: socket.create_connection(("127.0.0.1", port))) as relay:
        context = ssl.create_default_context(cafile=str(relay.ca_file))
        yield Iap("demo", "us-central1-a", "vm"), Options(url=relay.url, token="a-token", ssl=context)


@contextmanager
def through_ssm() -> Iterator[tuple[Access, Options]]:
    with openai_server() as port, Service(lambda *_: socket.create_connection(("127.0.0.1", port))) as fake:
        yield Ssm("us-east-1", "i-0123456789abcdef0"), Options(url=fake.url)


@contextmanager
def through_sagemaker() -> Iterator[tuple[Access, Options]]:
    with openai_server() as port, FakeRuntime(behind=port) as fake:
        yield SageMaker("us-east-1", "real", MODEL), Options(url=fake.url)


@pytest.mark.parametrize("form", [through_iap, through_ssm, through_sagemaker])
def test_every_client_gets_its_answer(form, monkeypatch, tmp_path) -> None:
    if form is through_ssm and plugin() is None:
        without_plugin()
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "FLEXSERVE_IAP_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    if plugin() is not None:
        monkeypatch.setenv("PATH", f"{plugin().parent}:{os.environ['PATH']}")
    with form() as (access, options), tunnel(access, options=options) as opened:
        clients.check(clients.everything(opened.base_url))
        browser.reads_an_event_stream(opened.base_url)
