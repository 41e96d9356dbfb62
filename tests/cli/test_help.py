"""Help, exit codes and completion of every command, read from the app itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flexserve import cli
from flexserve.cli import completion
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
    assert "tpu-v6e" in completion.stacks("tpu")
    assert completion.stacks("no-such") == []


def test_completion_outside_a_project_is_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert completion.stacks("") == []


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_is_installed_where_the_shell_looks(shell, tmp_path, monkeypatch, capsys):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert cli.main(["--show-completion"]) == 0
    script = capsys.readouterr().out
    assert "_FLEXSERVE_COMPLETE" in script
    assert cli.main(["--install-completion"]) == 0
    said = capsys.readouterr().out
    (file,) = (f for f in tmp_path.rglob("*") if f.is_file())
    assert file.read_text(encoding="utf-8").strip() == script.strip() and str(file) in said


def test_completion_for_another_shell_says_which_there_are(monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/bin/dash")
    assert cli.main(["--show-completion"]) == 1
    assert "bash, fish, zsh" in capsys.readouterr().err


def test_a_shell_completes_a_stack(root):
    """As bash asks: words and their number in the environment, answers as lines `kind,word`."""
    asked = {"_FLEXSERVE_COMPLETE": "bash_complete", "COMP_WORDS": "flexserve plan -s tp", "COMP_CWORD": "3"}
    argv = [sys.executable, "-m", "flexserve"]
    environ = {**os.environ, **asked, "PYTHONPATH": str(root)}
    done = subprocess.run(argv, cwd=root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["plain,tpu-v6e"], done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("flexserve plan --allow window", {"window-bounds"}),
        ("flexserve up --allow disk-t", {"disk-too-small", "disk-too-large", "disk-type-unsupported"}),
        ("flexserve secret check --allow placeh", {"placeholder"}),
        ("flexserve plan --allow secret-v", set()),
        ("flexserve rehearse tpu-v6e --fault stock", {"stock-out", "stock-out-details"}),
        ("flexserve rehearse tpu-v6e --set serving.max_num_s", {"serving.max_num_seqs="}),
        ("flexserve plan --set target.network.s", {"target.network.subnetwork=", "target.network.subnets="}),
        ("flexserve render --set xyz", set()),
        (
            "flexserve plan -s sagemaker-t4 --set target.s",
            {
                "target.scaling.by=",
                "target.scaling.in_after=",
                "target.scaling.out_after=",
                "target.scaling.target=",
                "target.start_timeout=",
            },
        ),
        ("flexserve plan -s tpu-v6e --set target.s", {"target.service_account=", "target.subnet_range="}),
        ("flexserve plan -s nosuch --set target.servi", {"target.service_account="}),
        ("flexserve rehearse tpu", {"tpu-v6e"}),
        ("flexserve sec", {"secret"}),
    ],
)
def test_a_shell_completes_what_an_option_may_be_and_imports_nothing_for_it(root, line, words):
    asked = {"_FLEXSERVE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    environ = {**os.environ, **asked, "PYTHONPATH": str(root)}
    argv = [sys.executable, "-X", "importtime", "-m", "flexserve"]
    done = subprocess.run(argv, cwd=root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert {answer.partition(",")[2] for answer in done.stdout.splitlines()} - {""} == words, done.stderr
    imported = {row.rpartition("|")[2].strip().partition(".")[0] for row in done.stderr.splitlines()}
    assert not imported & {*HEAVY, "rehearsal", "msgspec"}


HEAVY = ("pulumi", "pydantic", "httpx", "jinja2", "yaml", "rich", "google", "boto3", "grpc", "asyncio", "requests")


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ((), HEAVY),
        (("--help",), HEAVY),
        (("up", "--help"), HEAVY),
        (
            ("plan", "-s", "tpu-v6e"),
            ("pulumi", "pydantic", "httpx", "google", "boto3", "grpc", "rich", "jinja2", "asyncio", "requests"),
        ),
    ],
)
def test_nothing_heavy_is_imported(words, absent, root):
    code = (
        "import sys; from flexserve import cli; cli.main(sys.argv[1:]); "
        f"print('loaded', sorted(m for m in {absent!r} if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.rstrip().endswith("loaded []"), done.stderr
