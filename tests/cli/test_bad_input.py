"""What bad input gets: exit 2 with the nearest key, exit 3 with a rule and the way out, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import document

USAGE = [
    ("a stack that is not there", ["plan", "-s", "tpu-v6"], "did you mean tpu-v6e?"),
    ("no stack", ["plan"], "Missing option"),
    ("an option that is not there", ["plan", "-s", "tpu-v6e", "--stub"], "No such option"),
    ("a command that is not there", ["pln"], "Did you mean 'plan'?"),
    ("a port out of range", ["tunnel", "-s", "tpu-v6e", "--port", "70000"], "65535"),
    ("a key that is not there", ["plan", "-s", "tpu-v6e", "--set", "serving.max_model_length=1"], "did you mean max_model_len?"),
    ("a key of the target", ["plan", "-s", "tpu-v6e", "--set", "target.machine_typ=x"], "did you mean machine_type?"),
    ("a type that is wrong", ["plan", "-s", "tpu-v6e", "--set", "target.disk_gb=large"], "target.disk_gb"),
    ("no such target", ["plan", "-s", "tpu-v6e", "--set", "target.kind=gce_fle"], "did you mean gce_flex?"),
    ("never", ["plan", "-s", "tpu-v6e", "--set", "window=never"], "is not a duration"),
    ("--set without a value", ["plan", "-s", "tpu-v6e", "--set", "window"], "KEY=VALUE"),
    ("a time limit that is none", ["up", "-s", "tpu-v6e", "--yes", "--timeout", "soon"], "is not a duration"),
]
REFUSED = [
    ("QAT on TPU", "model.name=google/gemma-4-E2B-it-qat", "quantization-unsupported"),
    ("a window under 10 minutes", "window=5m", "window-bounds"),
    ("a window over 7 days", "window=8d", "window-bounds"),
    ("a small disk", "target.disk_gb=20", "disk-too-small"),
    ("an unknown model", "model.name=google/gemma-5", "unknown-model"),
    ("an unknown machine type", "target.machine_type=ct6e-standard-2t", "unknown-machine-type"),
    ("an unknown zone", "target.zones=[mars-north1-a]", "unknown-zone"),
    ("a length over the model's", "serving.max_model_len=9999999", "over-context"),
    ("a secret's value", "secret.name=hf_ABCDEFGHIJKLMNOP", "secret-value"),
    ("everybody", "access.source_ranges=[0.0.0.0/0]", "ingress-open"),
    ("a placeholder", "target.project=your-project", "placeholder"),
]


@pytest.mark.parametrize(("words", "text"), [pytest.param(w, t, id=i) for i, w, t in USAGE])
def test_usage_and_config_errors_exit_2(project, flexserve, words, text):
    code, out, err = flexserve(*words)
    assert (code, out) == (2, ""), err
    assert text in err and "Traceback" not in err
    code, out, _ = flexserve(*words, "--json")
    error = document(out)
    error = error.get("error", error)  # the tunnel's is an event
    assert code == 2 and error["exit_code"] == 2 and text in error["what"] + error["way_out"] + error["why"]


@pytest.mark.parametrize("words", [["status"], ["tunnel"], ["logs"], ["smoke"], ["down", "--yes"]], ids=lambda words: words[0])
def test_a_misspelt_stack_is_told_before_pulumi_is_looked_for(project, flexserve, words, tmp_path, monkeypatch):
    """Without a backend, and with a pulumi that may not be started."""
    for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("flexserve.project.pulumi", lambda: pytest.fail("pulumi was looked for"))
    code, _, err = flexserve(*words, "-s", "tpu-v6")
    assert code == 2 and "no stack 'tpu-v6'" in err and "did you mean tpu-v6e?" in err


@pytest.mark.parametrize(("setting", "rule"), [pytest.param(s, r, id=i) for i, s, r in REFUSED])
def test_rules_exit_3_with_the_way_out(project, flexserve, setting, rule):
    code, out, err = flexserve("plan", "-s", "tpu-v6e", "--set", setting)
    assert (code, out) == (3, "") and rule in err and "way out:" in err
    code, out, _ = flexserve("plan", "-s", "tpu-v6e", "--set", setting, "--json")
    refused = document(out)["refused"]
    assert code == 3 and refused["rule"] == rule and refused["why"] and refused["way_out"]


@pytest.mark.parametrize("rule", ["window-bounds", "disk-too-small", "unknown-zone", "ingress-open"])
def test_allow_passes_a_rule_and_shows_it(project, flexserve, rule):
    setting = next(s for _, s, r in REFUSED if r == rule)
    code, out, _ = flexserve("plan", "-s", "tpu-v6e", "--set", setting, "--allow", rule, "--json")
    assert code == 0 and rule in document(out)["allowed"]
    code, out, _ = flexserve("plan", "-s", "tpu-v6e", "--set", setting, "--allow", rule)
    assert code == 0 and f"allowed     {rule}" in out


def test_outside_a_project(tmp_path, monkeypatch, flexserve):
    monkeypatch.chdir(tmp_path)
    code, _, err = flexserve("plan", "-s", "tpu-v6e")
    assert code == 2 and "not a flexserve project" in err


def test_below_the_root(project, monkeypatch, flexserve):
    (project / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "er")
    assert flexserve("plan", "-s", "tpu-v6e")[0] == 0


def test_a_stack_file_that_is_no_yaml(project, flexserve):
    (project / "stacks" / "Pulumi.broken.yaml").write_text("config: [", encoding="utf-8")
    code, _, err = flexserve("plan", "-s", "broken")
    assert code == 2 and "is not YAML" in err and "Traceback" not in err


def test_a_traceback_only_with_debug(project, flexserve):
    assert "Traceback" not in flexserve("plan", "-s", "tpu-v6")[2]
    assert "Traceback" in flexserve("plan", "-s", "tpu-v6", "--debug")[2]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["plan", "-s", "tpu-v6e", "--json"], 0),
        (["plan", "-s", "tpu-v6e", "--set", "windo=1h", "--json"], 2),
        (["plan", "-s", "tpu-v6e", "--set", "window=5m", "--json"], 3),
    ],
)
def test_as_a_real_process(project, root, words, code):
    argv = [sys.executable, "-m", "flexserve", *words]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert document(done.stdout) and done.stderr == ""


@pytest.mark.parametrize("command", ["", "  "])
def test_an_exec_that_names_no_command_is_refused_before_anything_is_asked(project, flexserve, command):
    """`--exec "$UNSET"` in a script would wait for ever."""
    code, out, err = flexserve("tunnel", "-s", "tpu-v6e", "--exec", command)
    assert code == 2 and out == "" and "--exec names no command" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--on-stdin", "--port", "8000"], "--on-stdin and --port exclude each other"),
        (["--on-stdin", "--exec", "true"], "--on-stdin and --exec exclude each other"),
        (["--remote-port", "22"], "--remote-port needs --on-stdin"),
        (["--on-stdin", "--remote-port", "0"], "'0' is not a whole number from 1 to 65535"),
        (["--port", "80a"], "'80a' is not a whole number from 0 to 65535"),
        (["--port", "65536"], "'65536' is not a whole number from 0 to 65535"),
        (["--port", "²"], "is not a whole number"),
    ],
)
def test_options_of_the_tunnel_that_do_not_go_together(project, flexserve, words, told):
    code, out, err = flexserve("tunnel", "-s", "tpu-v6e", *words)
    assert code == 2 and out == "" and told in err and "way out" in err
