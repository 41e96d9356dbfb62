"""The stand-in for CodeBuild's agent, on this host: the order of phases, what a failure does, variables."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.machine import inner
from rehearsal.sagemaker.builder import Builder, _phases
from rehearsal.sagemaker.contracts import BuildSpec
from tests.sagemaker.aws import Gate, Side

AGENT = Path(inner.__file__).parent / "codebuild.py"


def run(folder, phases, shell="bash"):
    (folder / "src").mkdir()
    (folder / "build.json").write_text(json.dumps({"phases": phases, "shell": shell, "variables": {}}))
    subprocess.run([sys.executable, AGENT, folder], check=True, timeout=60)
    done = json.loads((folder / "result.json").read_text())
    return {phase["name"]: phase for phase in done}, (folder / "log").read_text()


def test_all_went_well(tmp_path):
    done, log = run(
        tmp_path,
        {
            "pre_build": ["export A='x y'"],
            "build": ["B=2", 'echo "$A-$B"'],
            "post_build": ['echo "post $A $CODEBUILD_BUILD_SUCCEEDING"'],
        },
    )
    assert [*done] == ["INSTALL", "PRE_BUILD", "BUILD", "POST_BUILD"] and {phase["status"] for phase in done.values()} == {
        "SUCCEEDED"
    }
    assert "x y-2\n" in log and "post x y 1\n" in log


def test_after_a_failed_build_post_build_runs_and_knows(tmp_path):
    done, log = run(tmp_path, {"build": ["false", "echo not-reached"], "post_build": ["echo told $CODEBUILD_BUILD_SUCCEEDING"]})
    assert done["BUILD"]["message"] == "Error while executing command: false. Reason: exit status 1"
    assert done["POST_BUILD"]["status"] == "SUCCEEDED" and "told 0\n" in log and "not-reached" not in log


def test_a_failure_before_the_build_ends_it(tmp_path):
    done, _ = run(tmp_path, {"pre_build": ["exit 7"], "build": ["echo no"]})
    assert [*done] == ["INSTALL", "PRE_BUILD"] and "exit status 7" in done["PRE_BUILD"]["message"]


def test_what_it_does_not_know_is_no_build():
    assert _phases("version: 0.2\nphases:\n  build:\n    commands: [a]\n")["phases"] == {"build": ["a"]}
    for text in (
        "version: 0.1",
        "phases: []",
        "version: 0.2\nartifacts: {}",
        "version: 0.2\nphases: {build: {finally: [a]}}",
        "- a",
    ):
        with pytest.raises(ValueError):
            _phases(text)


def test_a_broken_buildspec_is_told_as_codebuild_tells_it():
    build = Builder(None, Gate())(BuildSpec("b:1", "version: 0.2\n  x: {", b"", {}, Side()))  # type: ignore[arg-type]
    assert not build.succeeded and build.phases[0].message.startswith("YAML_FILE_ERROR")
