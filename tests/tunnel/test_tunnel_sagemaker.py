"""The SageMaker form: an OpenAI server on loopback whose requests are signed, against a fake of the runtime."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexserve.tunnel.dial import tunnel
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options
from flexserve.tunnel.sagemaker.assemble import CutStream, NotAStream, assemble, events
from infra.access import SageMaker
from tests.tunnel.fake_runtime import FakeRuntime
from verdict.errors import NoAccess
from verdict.exit_codes import ExitCode

CHAT = {"messages": [{"role": "user", "content": "say the nonce"}]}


@pytest.fixture(scope="module")
def runtime() -> Iterator[FakeRuntime]:
    with FakeRuntime() as fake:
        yield fake


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-very-secret-key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@contextmanager
def client(runtime: FakeRuntime, endpoint: str = "ok") -> Iterator[httpx.Client]:
    access = SageMaker("us-east-1", endpoint, "google/gemma-4")
    with tunnel(access, url=runtime.url) as opened, httpx.Client(base_url=opened.base_url, timeout=30) as http:
        yield http


def test_models_names_the_model(runtime) -> None:
    with client(runtime) as http:
        assert [model["id"] for model in http.get("/models").json()["data"]] == ["google/gemma-4"]


def test_a_plain_chat_goes_through_the_stream_call_and_is_whole(runtime) -> None:
    with client(runtime) as http:
        answer = http.post("/chat/completions", json=CHAT)
    seen = runtime.seen[-1]
    assert seen["path"] == "/endpoints/ok/invocations-response-stream"
    assert seen["body"]["stream"] is True
    assert seen["body"]["model"] == "google/gemma-4"
    assert answer.status_code == 200
    assert answer.json() == {
        "id": "c-1", "object": "chat.completion", "created": 7, "model": "google/gemma-4",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "The nonce is 42."}, "finish_reason": "stop",
                     "logprobs": None, "stop_reason": None}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }  # fmt: skip


def test_completions_and_tool_calls_are_put_together(runtime) -> None:
    with client(runtime) as http:
        assert http.post("/completions", json={"prompt": "x"}).json()["choices"][0]["text"] == "The nonce is 42."
        message = http.post("/chat/completions", json={**CHAT, "tools": [{}]}).json()["choices"][0]["message"]
    assert message["tool_calls"] == [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}]


def test_a_stream_is_handed_on_as_it_comes(runtime) -> None:
    with client(runtime, "slow") as http, http.stream("POST", "/chat/completions", json={**CHAT, "stream": True}) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    said = "".join(json.loads(line[6:])["choices"][0]["delta"].get("content", "") for line in lines[:-1])
    assert said == "The nonce is 42."


def test_request_ids_are_kept_both_ways(runtime) -> None:
    with client(runtime) as http:
        answer = http.post("/chat/completions", json=CHAT, headers={"x-request-id": "mine-1"})
    assert {name.lower(): value for name, value in runtime.seen[-1]["headers"].items()}["x-amzn-sagemaker-inference-id"] == "mine-1"
    assert answer.headers["x-request-id"].startswith("00000000-")


@pytest.mark.parametrize(
    ("endpoint", "status", "kind"),
    [
        ("error-AccessDeniedException-403", 403, "permission_error"),
        ("error-ExpiredTokenException-403", 401, "authentication_error"),
        ("error-ThrottlingException-429", 429, "rate_limit_error"),
        ("error-ServiceUnavailable-503", 503, "server_error"),
        ("error-ValidationError-400", 404, "invalid_request_error"),
        ("error-ModelError-424", 400, "BadRequestError"),
        ("json", 404, "NotFoundError"),
        ("cut", 502, "server_error"),
        ("streamerror", 500, "server_error"),
    ],
)
def test_every_refusal_has_openais_shape(runtime, endpoint, status, kind) -> None:
    with client(runtime, endpoint) as http:
        answer = http.post("/chat/completions", json=CHAT)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert answer.json()["error"]["message"]


def test_a_stream_that_breaks_never_looks_whole(runtime) -> None:
    with client(runtime, "streamerror") as http, http.stream("POST", "/chat/completions", json={**CHAT, "stream": True}) as answer:
        got = b""
        with pytest.raises(httpx.RemoteProtocolError):
            for chunk in answer.iter_bytes():
                got += chunk
    assert b"[DONE]" not in got


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.test"}, 403), ({"origin": "https://evil.test"}, 403), ({"origin": "http://localhost:3000"}, 200)],
)
def test_a_page_of_the_web_cannot_spend_the_operators_money(runtime, headers, status) -> None:
    before = len(runtime.seen)
    with client(runtime) as http:
        assert http.post("/chat/completions", json=CHAT, headers=headers).status_code == status
    assert len(runtime.seen) - before == (status == 200)


def test_a_page_of_this_machine_may_ask_and_read_the_answer(runtime) -> None:
    """The browser's steps: a preflight, then the request, whose answer it hands to the page only with the header."""
    origin = {"origin": "http://localhost:3000"}
    wanted = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,authorization"}
    before = len(runtime.seen)
    with client(runtime) as http:
        asked = http.options("/chat/completions", headers={**origin, **wanted})
        assert (asked.status_code, asked.content, len(runtime.seen)) == (204, b"", before)
        assert asked.headers["access-control-allow-headers"] == "content-type,authorization"
        assert "POST" in asked.headers["access-control-allow-methods"]
        with http.stream("POST", "/chat/completions", json={**CHAT, "stream": True}, headers=origin) as answer:
            assert b"[DONE]" in b"".join(answer.iter_bytes())
        for seen in (asked, answer, http.get("/models", headers=origin)):
            assert seen.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "access-control-allow-origin" not in http.get("/models").headers
        refused = http.options("/chat/completions", headers={"origin": "https://evil.test", **wanted})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/chat/completions", b"{", 400),
        ("POST", "/chat/completions", b"[]", 400),
        ("GET", "/nothing", b"", 404),
        ("POST", "/chat/completions", b"x" * (7 << 20), 413),
    ],
)
def test_bad_requests(runtime, method, path, content, status) -> None:
    with client(runtime) as http:
        answer = http.request(method, path, content=content)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_an_idle_tunnel_ends_when_the_endpoint_goes(runtime) -> None:
    asked: list[int] = []

    def expired() -> datetime | None:
        asked.append(1)
        return datetime(2026, 1, 2, 3, 4, tzinfo=UTC) if len(asked) > 2 else None

    options = Options(url=runtime.url, expired=expired, limits=Limits(look_s=0.01, ask_s=0.02))
    with tunnel(SageMaker("us-east-1", "ok", "m"), options=options) as opened:
        for _ in range(1000):
            if opened.over.done():
                break
            time.sleep(0.02)
        assert opened.over.result().exit_code == ExitCode.GONE


def test_no_credentials_is_told_before_anything_is_sent(runtime, monkeypatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(NoAccess), tunnel(SageMaker("us-east-1", "ok", "m"), options=Options(url=runtime.url)):
        pass


@given(st.lists(st.text(max_size=20), max_size=20), st.lists(st.integers(1, 40), max_size=200))
def test_however_a_stream_is_cut_it_is_put_together_whole(words, cuts) -> None:
    chunks = [
        {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]} for word in words
    ]
    whole = b"".join(b"data: %s\r\n\r\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    parts, start = [], 0
    for size in cuts:
        parts.append(whole[start : start + size])
        start += size
    parts.append(whole[start:])
    found = assemble(events(parts))
    assert [choice["message"]["content"] for choice in found["choices"]] == ["".join(words)][: len(found["choices"])]
    assert len(found["choices"]) == bool(words)


def test_a_stream_without_its_end_is_not_whole() -> None:
    with pytest.raises(CutStream):
        assemble(events([b'data: {"choices": []}\n\n']))
    with pytest.raises(NotAStream):
        assemble(events([b'{"object": "error"}']))
