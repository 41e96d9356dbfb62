"""With `--json` stdout is one document (the tunnel's: one line), whatever goes wrong, in whichever command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tests.cli.conftest import document

STACK = ["-s", "tpu-v6e"]
COMMANDS = {
    "plan": ["plan", *STACK],
    "render": ["render", *STACK],
    "build": ["build", *STACK, "--yes"],
    "up": ["up", *STACK, "--yes"],
    "status": ["status", *STACK],
    "logs": ["logs", *STACK],
    "tunnel": ["tunnel", *STACK],
    "smoke": ["smoke", *STACK],
    "down": ["down", *STACK, "--yes"],
    "rehearse": ["rehearse", "tpu-v6e"],
    "secret put": ["secret", "put", "hf-token", *STACK],
    "secret check": ["secret", "check", "hf-token", *STACK],
}
VALUES = [
    ["plan", *STACK, "--set", "window"],
    ["render", *STACK, "--set", "windo=1h"],
    ["up", *STACK, "--timeout", "soon"],
    ["status", *STACK, "--timeout", "soon"],
    ["logs", *STACK, "-f"],
    ["tunnel", *STACK, "--port", "80a"],
    ["tunnel", *STACK, "--remote-port", "22"],
    ["smoke"],
    ["smoke", "--url", "http://127.0.0.1:1", *STACK],
    ["rehearse", "tpu-v6e", "--hold", "soon"],
    ["rehearse", "--hold", "tpu-v6e"],
    ["rehearse", "tpu-v6e", "--fault", "no-such-fault"],
    ["rehearse"],
    ["secret", "check", "hf_ABCDEFGHIJKLMNOP", *STACK],
]
STREAMS = [
    ["tunnel", *STACK, "--exec", ""],
    ["tunnel", *STACK, "--exec", "true", "--port", "80a"],
    ["tunnel", *STACK, "--on-stdin", "--port", "80"],
]


def ids(words: list[str]) -> str:
    return " ".join(words)


def said(code: int, out: str, err: str) -> dict[str, object]:
    """The error of the one document on stdout; it says the exit code, and stderr has neither it nor a traceback."""
    whole = document(out)
    error = whole.get("error", whole)
    assert "refused" not in whole and error["exit_code"] == code and error["what"] and error["kind"], whole
    assert "Traceback" not in err and str(error["what"]) not in err
    if whole is error:
        assert whole["event"] == "failed" and out.count("\n") == 1
    return error


@pytest.fixture
def anywhere(project, monkeypatch, tmp_path):
    """No cloud can be asked, and there is no backend and no login."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_", "PULUMI_", "FLEXSERVE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("something was asked"))
    return project


@pytest.mark.parametrize("command", COMMANDS)
def test_outside_a_project(anywhere, flexserve, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    error = said(*flexserve(*COMMANDS[command], "--json"))
    assert error["kind"] == "bad-config" and "not a flexserve project" in error["what"] and error["exit_code"] == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stack_that_nobody_knows(anywhere, flexserve, command):
    words = [word.replace("tpu-v6e", "tpu-v6") for word in COMMANDS[command]]
    error = said(*flexserve(*words, "--json"))
    assert error["kind"] == "bad-config" and "no stack 'tpu-v6'" in error["what"]
    assert "did you mean tpu-v6e?" in f"{error['way_out']} {error['why']}"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_is_not_there(anywhere, flexserve, command):
    """Before the command and behind it."""
    for words in ([*COMMANDS[command], "--nope", "--json"], ["--nope", *COMMANDS[command], "--json"]):
        error = said(*flexserve(*words))
        assert (error["kind"], error["exit_code"]) == ("usage", 2) and "--nope" in error["what"] and "--help" in error["way_out"]


@pytest.mark.parametrize("words", VALUES, ids=ids)
def test_a_value_that_is_none(anywhere, flexserve, words):
    assert said(*flexserve(*words, "--json"))["kind"] in ("usage", "bad-config")


@pytest.mark.parametrize("words", STREAMS, ids=ids)
def test_where_stdout_is_somebody_elses_it_is_on_stderr(anywhere, flexserve, words):
    code, out, err = flexserve(*words, "--json")
    assert out == "" and said(code, err, "")["exit_code"] == 2


def broken_yaml(file):
    file.write_text("config: [")


def wrong_type(file):
    file.write_text(file.read_text().replace("flexserve:window: 4h", "flexserve:window: {}"))


def folder(file):
    file.unlink()
    file.mkdir()


def no_text(file):
    file.write_bytes(b"\xff\xfe\x00config")


@pytest.mark.parametrize("spoilt", [broken_yaml, wrong_type, folder, no_text])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_stack_file_that_cannot_be_read(anywhere, flexserve, command, spoilt):
    spoilt(anywhere / "stacks" / "Pulumi.tpu-v6e.yaml")
    code, out, err = flexserve(*COMMANDS[command], "--json")
    error = said(code, out, err)
    assert code in (1, 2, 5) and error["kind"] != "usage" and "unexpected" not in error["what"]


@pytest.mark.parametrize("words", [["plan", *STACK], ["tunnel", *STACK], ["rehearse", "--faults"]], ids=ids)
def test_a_system_error_before_a_project_is_found(anywhere, flexserve, monkeypatch, words):
    """As a working folder on a disk that fails."""

    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/mnt/gone")

    monkeypatch.setattr("flexserve.project.Path.cwd", fails)
    code, out, err = flexserve(*words, "--json")
    assert "/mnt/gone: Permission denied" in said(code, out, err)["what"] and code == 1


def test_words_that_are_no_json_go_to_stderr_when_stdout_is_full(project, root):
    """There no document can be written; it is the one cause that is told in words."""
    argv = [sys.executable, "-m", "flexserve", "plan", *STACK, "--json"]
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            argv,
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1 and b"the output could not be written" in done.stderr and b"Traceback" not in done.stderr


def test_the_table_has_every_command():
    import click

    from flexserve.cli import app

    found = set()
    for name, command in app.commands.items():
        found |= {f"{name} {inner}" for inner in command.commands} if isinstance(command, click.Group) else {name}
    assert found == set(COMMANDS)
