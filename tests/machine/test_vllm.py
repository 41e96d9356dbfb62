"""The stand-in for vLLM, run as a process here: its arguments, its start, its answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.machine.fakes import hub
from rehearsal.machine.images import OPTIONS, application_layer
from rehearsal.machine.vllm import answers
from tests.machine.guest import eventually

IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}
MODEL = "google/gemma-4-E2B-it"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rehearsal.machine.vllm.server", *words]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "STAND_IN_OPTIONS": str(OPTIONS), "STAND_IN_REHEARSAL": "http://127.0.0.1:9", **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), env=environment(**more), capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(hub.content(MODEL, name))
    return folder


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--max-modle-len", "1"], "vllm serve: error: unrecognized arguments: --max-modle-len"),
        (["--dtype", "int3"], "argument --dtype: invalid choice: 'int3' (choose from"),
        (["--port", "eighty"], "argument --port: invalid int value: 'eighty'"),
        (["--port"], "argument --port: expected one argument"),
        (["--max-model-len", "8x"], "argument --max-model-len"),
        (["--enforce-eager=1"], "argument --enforce-eager"),
    ],
)
def test_what_vllms_parser_refuses_ends_with_2(words: list[str], text: str) -> None:
    ran = run("serve", "/m", *words)
    assert ran.returncode == 2
    assert text in ran.stderr


def test_a_model_that_is_not_whole_ends_with_1(model: Path, tmp_path: Path) -> None:
    assert run("serve", str(tmp_path), "--port", "0").returncode == 1
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:1_000_000])
    ran = run("serve", str(tmp_path), "--port", "0")
    assert ran.returncode == 1
    assert "SafetensorError" in ran.stderr


def test_a_variable_that_vllm_does_not_read_is_warned_of(tmp_path: Path) -> None:
    ran = run("serve", str(tmp_path), VLLM_MADE_UP="1", VLLM_LOGGING_LEVEL="INFO")
    assert "Unknown vLLM environment variable detected: VLLM_MADE_UP" in ran.stdout
    assert "VLLM_LOGGING_LEVEL" not in ran.stdout


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "gemma", "--max_model_len", "1k",
             "--language-model-only"]  # fmt: skip
    process = subprocess.Popen(command("serve", str(model), *words), env=environment(), stdout=subprocess.PIPE, text=True)
    base = f"http://127.0.0.1:{port}"

    def healthy() -> bool:
        try:
            return bool(urllib.request.urlopen(f"{base}/health", timeout=5).status == 200)
        except OSError:
            assert process.poll() is None
            return False

    eventually(healthy)
    yield base
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert process.stdout is not None
    said = process.stdout.read()
    for line in ("Starting to load model", "Model loading took", "Compilation finished", "KV cache size", "startup complete."):
        assert line in said


def post(base: str, path: str, **body: object) -> tuple[int, str]:
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask(text: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": text}]


def test_a_chat_repeats_the_nonce(server: str) -> None:
    status, body = post(server, "/v1/chat/completions", model="gemma", messages=ask("Say a1b2c3d4e5f6 please"))
    document = json.loads(body)
    assert status == 200
    assert document["choices"][0]["message"]["content"] == "a1b2c3d4e5f6"
    assert document["choices"][0]["finish_reason"] == "stop"
    assert document["usage"]["completion_tokens"] == len(answers.tokens("a1b2c3d4e5f6"))


def test_a_stream_is_the_same_text_in_pieces(server: str) -> None:
    options = {"include_usage": True}
    _, body = post(server, "/v1/chat/completions", messages=ask("Say a1b2c3d4e5f6"), stream=True, stream_options=options)
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line]
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"]) == "a1b2c3d4e5f6"
    assert events[-1]["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v1/chat/completions", {"model": "other", "messages": [{"role": "user", "content": "x"}]}, 404, "`other` does not exist"),
        ("/v1/chat/completions", {"messages": []}, 400, "at least 1 item"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "long " * 2000}]}, 400, "context length is 1000"),
        ("/v1/chat/completions", {"messages": [IMAGE]}, 400, "At most 0"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": [{}]}, 400, "--enable-auto-tool-choice"),
        ("/v1/nothing", {}, 404, "Not Found"),
    ],
)  # fmt: skip
def test_what_it_refuses(server: str, path: str, body: dict[str, object], status: int, text: str) -> None:
    got, said = post(server, path, **body)
    assert got == status
    assert text in said


def test_limits_schemas_and_the_other_paths(server: str) -> None:
    _, body = post(server, "/v1/completions", prompt="one two three", max_tokens=2)
    assert json.loads(body)["choices"][0]["finish_reason"] == "length"
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    _, body = post(server, "/v1/chat/completions", messages=ask("token1234"), response_format=form)
    assert json.loads(json.loads(body)["choices"][0]["message"]["content"]) == {"n": 1, "s": "token1234"}
    assert json.loads(post(server, "/tokenize", prompt="a b c")[1])["count"] == 3
    text = urllib.request.urlopen(f"{server}/metrics", timeout=5).read().decode()
    assert 'vllm:request_success_total{engine="0",model_name="gemma",finished_reason="length"} 1.0' in text


def test_the_port_is_taken_before_anything_is_loaded(server: str, model: Path) -> None:
    ran = run("serve", str(model), "--host", "127.0.0.1", "--port", server.rsplit(":", 1)[1])
    assert ran.returncode == 1
    assert "Address already in use" in ran.stderr
    assert "Starting to load" not in ran.stdout


def test_the_images_layer_is_the_same_every_time() -> None:
    assert application_layer() == application_layer()
