"""Help, exit codes and completion of every command, read from the app itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flexserve import cli
from flexserve.help import EXAMPLES, EXITS
from tests.cli.app import COMMANDS
from verdict.exit_codes import ExitCode


def test_every_command_has_examples_and_exit_codes():
    assert set(COMMANDS) == set(EXAMPLES) == set(EXITS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_two_examples_and_the_exit_codes(command, capsys):
    assert cli.main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    for example in EXAMPLES[command]:
        assert f"    {example}\n" in text
        assert example.startswith(f"flexserve {command}")
    for code in EXITS[command]:
        assert f"{int(code):>3}  {code.meaning}" in text
    assert "--json" in text and "--debug" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_parse(command):
    """Each example's options exist: it is parsed by the app, without running the command."""
    import shlex

    for example in EXAMPLES[command]:
        words = shlex.split(example.partition(" | ")[0].partition(" < ")[0])[1:]
        at, rest = COMMANDS[command], words[len(command.split()) :]
        at.make_context(command, list(rest))


def test_top_help_lists_all_exit_codes(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    for code in ExitCode:
        assert f"{int(code):>3}  {code.meaning}" in text


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("flexserve 0.")


def test_completion_offers_stack_names(root, monkeypatch):
    monkeypatch.chdir(root / "tests")
    assert "tpu-v6e" in cli._stacks("tpu")
    assert cli._stacks("no-such") == []


def test_completion_outside_a_project_is_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli._stacks("") == []


HEAVY = ("pulumi", "pydantic", "httpx", "jinja2", "yaml", "rich", "google", "boto3", "grpc", "asyncio", "requests")


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ((), HEAVY),
        (("--help",), HEAVY),
        (("up", "--help"), tuple(m for m in HEAVY if m != "pydantic")),  # typer itself converts a command's options with pydantic
        (("plan", "-s", "tpu-v6e"), ("pulumi", "httpx", "google", "boto3", "grpc", "rich", "jinja2", "asyncio")),
    ],
)
def test_nothing_heavy_is_imported(words, absent, root):
    code = (
        "import sys; from flexserve import cli; cli.main(sys.argv[1:]); "
        f"print('loaded', sorted(m for m in {absent!r} if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.rstrip().endswith("loaded []"), done.stderr
