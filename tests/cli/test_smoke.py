"""What a chat completion proves, and what smoke says of a server that cannot."""

from __future__ import annotations

import pytest

from flexserve.checks import metrics
from flexserve.checks.nonce import ask, new_nonce
from tests.cli.conftest import document
from tests.cli.openai_server import METRICS, OpenAiServer, serving
from verdict.errors import FlexserveError


def test_a_nonce_is_new_each_time():
    assert len({new_nonce() for _ in range(100)}) == 100


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_nonce_comes_back(suffix):
    with serving(OpenAiServer()) as server:
        answer = ask(server.url + suffix)
    assert answer.ok and answer.nonce in answer.text and answer.model == "m" and answer.tokens == 7


@pytest.mark.parametrize("server", [OpenAiServer(says="Hello!"), OpenAiServer(says=""), OpenAiServer(thinks=True)])
def test_another_answer_is_no_proof(server):
    with serving(server):
        assert not ask(server.url).ok


def test_healthy_and_unable_to_chat():
    with serving(OpenAiServer(chat_status=500)) as server, pytest.raises(FlexserveError, match="500") as caught:
        ask(server.url)
    assert "shared memory" in caught.value.why


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(OpenAiServer()) as server:
        assert ask(server.url).ok


@pytest.mark.parametrize(
    ("server", "outcome", "code"),
    [(OpenAiServer(), "pass", 0), (OpenAiServer(says="Hello!"), "fail", 1), (OpenAiServer(chat_status=500), "fail", 1)],
)
def test_smoke_of_a_url(flexserve, server, outcome, code):
    with serving(server):
        got, out, _ = flexserve("smoke", "--url", server.url, "--json")
    (check,) = document(out)["checks"]
    assert got == code and set(check) == {"name", "outcome", "why"} and check["name"] == "chat" and check["outcome"] == outcome


def test_smoke_of_nothing(flexserve):
    code, out, _ = flexserve("smoke", "--url", "http://127.0.0.1:9", "--json")
    assert code == 1 and "did not answer" in document(out)["checks"][0]["why"]


@pytest.mark.parametrize("url", ["nonsense", "http://[::1"])
def test_smoke_of_what_is_no_address(flexserve, url):
    code, out, _ = flexserve("smoke", "--url", url, "--json")
    assert code == 1 and "did not answer" in document(out)["checks"][0]["why"]


@pytest.mark.parametrize("words", [[], ["-s", "tpu-v6e", "--url", "http://127.0.0.1:9"]])
def test_smoke_needs_one_server(flexserve, words):
    assert flexserve("smoke", *words)[0] == 2


def test_tokens_are_counted_from_the_servers_own_counters():
    assert metrics.tokens(METRICS) == 1500
    assert metrics.tokens("nothing 1\n") is None
    with serving(OpenAiServer()) as server:
        assert metrics.fetch(server.url) == 1500
    assert metrics.fetch("http://127.0.0.1:9") is None


@pytest.mark.parametrize(("url", "way_out"), [("http://127.0.0.1:1", "flexserve tunnel"), ("localhost", "http://localhost:8000")])
def test_a_server_that_is_not_there_has_a_way_out(flexserve, project, url, way_out):
    code, out, _ = flexserve("smoke", "--url", url, "--json")
    (check,) = document(out)["checks"]
    assert code == 1 and check["outcome"] == "fail" and "way out: " in check["why"] and way_out in check["why"]


def test_an_empty_address_is_an_address_and_not_a_stack(project, flexserve):
    code, out, err = flexserve("smoke", "--url", "")
    assert code == 1 and "fail  chat" in out and "None" not in out + err
