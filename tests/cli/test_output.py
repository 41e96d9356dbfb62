"""Where words go: colour only on a terminal, one document with --json, a question that is asked on stderr."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from catalog.loader import Catalog
from flexserve.commands import up as command
from flexserve.lifecycle.parts import Changes
from flexserve.lifecycle.show import Progress
from flexserve.lifecycle.state import Seen, describe
from flexserve.output import Output, canonical, dollars, table
from infra.deployment import from_stack_file
from infra.kept import Choice, Kept
from infra.plan import make_plan
from infra.targets.protocol import DeploymentRef
from tests.cli.fakes import START, boot, failed_boot, machine, outputs
from verdict.errors import FlexserveError, Refused


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "no_color", "coloured"),
    [(Terminal(), "", True), (Terminal(), "1", False), (io.StringIO(), "", False)],
)
def test_colour_only_on_a_terminal_that_wants_it(monkeypatch, stream, no_color, coloured):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\033[" in Output(out=stream).style("x", "red")) == coloured


def test_the_live_line_is_only_for_terminals(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        output = Output(err=stream)
        output.live("counting")
        assert ("counting" in stream.getvalue()) == shown
        output.say("done")
        assert stream.getvalue().endswith("\r\033[Kdone\n" if shown else "done\n")


def test_the_reason_does_not_say_error_again():
    error = FlexserveError("Pulumi could not read the stack's state", why="error: passphrase must be set")
    assert error.why == "passphrase must be set" and "error:" not in str(error)


def test_an_error_is_a_sentence_or_a_document():
    error = Refused("window-bounds", why="too long", way_out="shorter")
    out, err = io.StringIO(), io.StringIO()
    Output(out=out, err=err).error(error)
    assert (out.getvalue(), err.getvalue()) == ("", "error: refused by rule window-bounds\n  why: too long\n  way out: shorter\n")
    out, err = io.StringIO(), io.StringIO()
    Output(as_json=True, out=out, err=err).error(error)
    assert err.getvalue() == "" and '"rule": "window-bounds"' in out.getvalue()


def test_small_words():
    assert [dollars(x) for x in (None, 0.0, 1.35, 5.4200, 1234.5)] == ["unknown", "$0", "$1.35", "$5.42", "$1,234.5"]
    assert table([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b"
    assert canonical({"b": 1, "a": {"d": 1, "c": 2}}) == '{\n "a": {\n  "c": 2,\n  "d": 1\n },\n "b": 1\n}'


def test_progress_says_each_phase_once():
    err = io.StringIO()
    progress = Progress(Output(err=err))
    ref = DeploymentRef("s", "id1", outputs())
    for report in (None, boot("booting"), boot("booting"), boot(), failed_boot()):
        progress(describe("s", Seen(ref, START, machine(), report)))
    text = err.getvalue()
    assert text.count("docker") == 1 and text.count("s is created") == 1 and text.count("s is serving") == 1
    assert "token" in text and "secret hf-token is empty" in text


@pytest.mark.parametrize(
    ("typed", "yes"), [("\n", True), ("y\n", True), ("YES\n", True), ("n\n", False), ("what\n", False), ("", False)]
)
def test_enter_is_yes_and_end_of_input_is_no(monkeypatch, capsys, tpu_v6e, typed, yes):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    plan = make_plan(tpu_v6e(), Catalog.load())
    if yes:
        command.ask(plan, (), None)
    else:
        with pytest.raises(FlexserveError, match="nothing was changed"):
            command.ask(plan, (), None)
    asked = capsys.readouterr()
    assert asked.out == "" and "$1.355/h, $5.42 for 4h, without 200 GB hyperdisk-balanced? [Y/n]" in asked.err


def test_a_live_machine_gets_another_question(monkeypatch, capsys, tpu_v6e):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    command.ask(make_plan(tpu_v6e(), Catalog.load()), (), Changes({"update": 1}))
    assert capsys.readouterr().err == "Apply this to the live machine? [Y/n] "


@pytest.mark.parametrize(
    ("stack", "sets", "says"),
    [
        ("sagemaker-t4", (), "some 14 minutes: about $0.17 more. [Y/n]"),
        ("sagemaker-l4", ("target.count={min: 1, max: 3}",), "some 14 minutes: about $0.27 to $0.8 more. [Y/n]"),
        ("sagemaker-l4", ("target.machine_type=ml.g6.12xlarge",), "some 14 minutes: at a price that is not known. [Y/n]"),
    ],
)
def test_a_change_that_takes_new_machines_says_what_they_cost_beside_the_old_ones(monkeypatch, capsys, root, stack, sets, says):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    command.ask(make_plan(from_stack_file(root, stack, sets), Catalog.load()), (), Changes({"update": 1}))
    asked = capsys.readouterr().err
    assert asked.startswith("Apply this to the live machine? Where it takes new machines, ") and says in asked


@pytest.mark.parametrize(("typed", "yes"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)])
def test_a_live_machine_is_given_up_for_a_typed_yes_only(monkeypatch, capsys, tpu_v6e, typed, yes):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    plan = make_plan(tpu_v6e(), Catalog.load())
    if yes:
        command.ask(plan, (), Changes({"replace": 1}), replace=True)
    else:
        with pytest.raises(FlexserveError, match="nothing was changed"):
            command.ask(plan, (), Changes({"replace": 1}), replace=True)
    assert "give up the live machine and its accelerator" in capsys.readouterr().err


@pytest.mark.parametrize(("exported", "replace", "given"), [("1", False, "0"), ("1", True, "1"), ("", True, "1"), ("", False, "0")])
def test_consent_is_the_commands_own_word_whatever_is_exported(monkeypatch, exported, replace, given):
    class Reached(Exception):
        """The engine's turn."""

    seen: list[str] = []

    def reached(_project, _stack, _say, variables):
        seen.append(variables["FLEXSERVE_REPLACE"])
        raise Reached

    monkeypatch.setenv("FLEXSERVE_REPLACE", exported)
    plan = SimpleNamespace(deployment=SimpleNamespace(target=SimpleNamespace(kind="gce_flex", ways=("spot",))))
    for name, value in (("find", lambda: None), ("load", lambda *_a, **_m: plan), ("where", lambda *_a: ())):
        monkeypatch.setattr(command, name, value)
    monkeypatch.setattr(command, "page", lambda *_a: "")
    monkeypatch.setattr(command, "parts", reached)
    output = Output(out=io.StringIO(), err=io.StringIO())
    with pytest.raises(Reached):
        command.run("s", output, yes=True, allow=(), wait=True, timeout="1m", replace=replace)
    assert seen == [given]


@pytest.mark.parametrize(
    ("there", "file", "stays"),
    [(machine(), 21600, "4h"), (machine(), 14400, ""), (None, 21600, ""), (replace(machine(), dead="no capacity"), 21600, "")],
    ids=["another window", "the same", "no machine", "one that is made anew"],
)
def test_the_plan_of_a_live_machine_has_the_window_that_it_keeps(monkeypatch, there, file, stays):
    """Not the stack file's, and its price: that is for the next machine."""
    monkeypatch.setattr(command, "kept", lambda *_: Kept("id1", 1000, {"window": Choice("4h", "4h")}))
    live = SimpleNamespace(find=lambda _: there)
    around = SimpleNamespace(stack="s", read=lambda: DeploymentRef("s", "id1"), live=lambda _: live)
    plan = SimpleNamespace(deployment=SimpleNamespace(common=SimpleNamespace(window=file)))
    assert command.window_kept(None, around, plan) == stays


@pytest.mark.parametrize("words", [("plan", "-s", "tpu-v6e"), ("secret", "check", "hf-token", "-s", "tpu-v6e")])
def test_ctrl_c_that_no_command_took_is_130_and_a_sentence(project, flexserve, monkeypatch, words):
    def press(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("flexserve.commands.secret.load", press)  # first: it takes plan's own when it is imported
    monkeypatch.setattr("flexserve.commands.plan.load", press)
    code, out, err = flexserve(*words)
    assert (code, out) == (130, "") and "error: interrupted before the command was done" in err
    assert "STACK" not in err
    code, out, _ = flexserve(*words, "--json")
    assert code == 130 and '"kind": "interrupted"' in out


def test_the_unexpected_is_one_sentence(project, flexserve, monkeypatch):
    def broken(*args, **more):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("flexserve.commands.plan.load", broken)
    code, out, err = flexserve("plan", "-s", "tpu-v6e")
    assert (code, out) == (1, "") and "unexpected: ZeroDivisionError" in err and "Traceback" not in err and "--debug" in err


@pytest.mark.parametrize(
    ("words", "closed", "code", "says"),
    [
        ("down -s tpu-v6e", "<&-", 2, "add --yes"),
        ("plan -s tpu-v6e", ">&-", 0, ""),
        ("plan -s tpu-v6e --json", ">&-", 0, ""),
        ("plan -s tpu-v6", "2>&-", 2, ""),
    ],
)
def test_a_stream_that_is_closed_is_empty(project, root, words, closed, code, says):
    line = f'exec "$0" -m flexserve {words} {closed}'
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        ["bash", "-c", line, sys.executable], cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert says in done.stderr and "unexpected" not in done.stderr + done.stdout


class Gone(io.StringIO):
    """A terminal that was closed, or a pipe whose reader has gone."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def test_progress_that_nobody_reads_stops_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    output = Output(err=Gone(), out=out)
    output.say("creating")
    output.live("booting")
    output.clear()
    output.error(FlexserveError("failed"))
    output.result({"a": 1}, "done")
    assert out.getvalue() == "done\n"


@pytest.mark.parametrize(
    "words",
    [
        ["render", "-s", "tpu-v6e"],
        ["render", "-s", "tpu-v6e", "--json"],
        ["plan", "-s", "tpu-v6e", "--manifest"],
        ["plan", "-s", "tpu-v6e", "--set", "owner=\u20ac\U0001f389", "--manifest"],
        ["plan", "-s", "tpu-v6e", "--json"],
        ["plan", "-s", "tpu-v6e", "--set", "window=\u20ac\U0001f389", "--json"],
        ["plan", "-s", "\udcff\u20ac", "--json"],
        ["plan", "-s", "\udcff\u20ac"],
    ],
    ids=["render", "render --json", "manifest", "manifest of an owner", "plan --json", "error --json", "bytes --json", "bytes"],
)
def test_another_encoding_of_the_terminal_changes_no_script_and_no_document(project, root, words):
    """`ascii` has neither of the odd letters (nor has latin-1), `cp1252` has one of them."""

    def run(encoding):
        env = {**os.environ, "PYTHONPATH": str(root), "PYTHONIOENCODING": encoding}
        argv = [sys.executable, "-m", "flexserve", *words]
        return subprocess.run(argv, cwd=project, env=env, capture_output=True, timeout=60, check=False)

    usual = run("utf-8")
    for here in map(run, ("ascii", "cp1252")):
        assert here.returncode == usual.returncode and b"unexpected" not in here.stderr and b"Traceback" not in here.stderr
        if "--json" in words:
            assert json.loads(here.stdout) == json.loads(usual.stdout)
        else:
            assert here.stdout == usual.stdout


def test_an_error_of_a_command_that_prints_lines_is_a_line(project, flexserve, monkeypatch):
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///nonexistent")
    code, out, _ = flexserve("tunnel", "-s", "no-such", "--json")
    assert code == 2 and out.count("\n") == 1 and json.loads(out)["event"] == "failed" and json.loads(out)["exit_code"] == 2


@pytest.mark.parametrize("theirs", [["--on-stdin"], ["--exec", "true"], ["--exec=true"]])
def test_where_stdout_is_somebody_elses_the_tunnels_error_is_on_stderr(project, flexserve, monkeypatch, theirs):
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///nonexistent")
    code, out, err = flexserve("tunnel", "-s", "no-such", "--json", *theirs)
    assert (code, out) == (2, "") and json.loads(err)["event"] == "failed"
