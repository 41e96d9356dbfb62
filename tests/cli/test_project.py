"""Finding the project, the engine and the state."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from flexserve.project import MOMENT_S, Project, environment, find, pulumi, read_error
from infra.state import State
from verdict.errors import BadConfig, FlexserveError, NoAccess


def test_the_nearest_project_above(project):
    (project / "a" / "b").mkdir(parents=True)
    assert find(project / "a" / "b").root == project
    (project / "a" / "Pulumi.yaml").write_text("name: other\n", encoding="utf-8")
    assert find(project / "a" / "b").root == project
    with pytest.raises(BadConfig):
        find(project.parent)


def test_stacks(project):
    assert find().stacks == ["tpu-v6e"]


def test_our_own_python_comes_first_on_the_engines_path(monkeypatch):
    monkeypatch.setenv("PATH", "/somewhere/bin")
    first = environment()["PATH"].split(os.pathsep)[0]
    assert Path(first) == Path(sys.executable).parent


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions", NoAccess, "pulumi login"),
        (
            "error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE",
            NoAccess,
            "unset does not",
        ),
        ("error: get stack secrets manager: incorrect passphrase", NoAccess, "the same one each time"),
        ("error: something else", FlexserveError, "pulumi stack"),
        ("", FlexserveError, "pulumi stack"),
    ],
)
def test_what_pulumis_refusal_to_read_means(text, kind, words):
    error = read_error(text)
    assert type(error) is kind and words in error.way_out


def test_a_state_that_stays_half_written_has_one_before_it():
    error = read_error("error: failed to load checkpoint: place 1: unexpected end of JSON input")
    assert ".json.bak" in error.way_out and error.exit_code == 1


def fake_pulumi(folder: Path, script: str) -> None:
    path = folder / "pulumi"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_reading_the_state_is_one_question(project, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    fake_pulumi(tmp_path, 'echo "$@" >>asked; cat export.json')
    assert pulumi() == str(tmp_path / "pulumi")
    stack = {"type": "pulumi:pulumi:Stack", "outputs": {"id": "x"}}
    kept = {"urn": "urn:pulumi:s::flexserve::pulumi:index:Stash::kept", "outputs": {"input": {"id": "x", "started": 5}}}
    (project / "export.json").write_text(json.dumps({"deployment": {"resources": [stack, kept]}}), encoding="utf-8")
    here = Project(project)
    assert here.outputs("s") == {"id": "x"} and here.state("s").kept == {"id": "x", "started": 5}
    assert (project / "asked").read_text(encoding="utf-8") == "stack export --stack s --non-interactive\n"
    fake_pulumi(tmp_path, "echo \"error: no stack named 's' found\" >&2; exit 255")
    assert Project(project).outputs("s") is None and Project(project).state("s") is None


STACKS = [
    ("file://{}", "", True),
    ("file://{}?no_tmp_dir=true", "", True),
    ("file://{}", "locks/organization/flexserve/s/1.json", False),  # whoever holds it, `destroy` says so, or removes it
    ("file://{}", "locks/organization/flexserve/other/1.json", True),
    ("file://{}", "locks/s/1.json", False),  # the layout before projects
    ("file://{}/none", "", False),
    ("s3://{}", "", False),
    ("https://api.acme.test", "", False),
    ("", "", False),
]


@pytest.mark.parametrize(("backend", "lock", "bare"), STACKS)
def test_a_state_is_bare_where_no_lock_can_be(project, tmp_path, monkeypatch, backend, lock, bare):
    monkeypatch.setattr(Project, "state", lambda *_: State({}, {}, 0))
    folder = tmp_path / "a state"
    file = folder / ".pulumi" / (lock or "meta.yaml")
    file.parent.mkdir(parents=True)
    file.write_text("{}", encoding="utf-8")
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend.format(quote(str(folder))))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    assert Project(project).bare("s") is bare
    for more in (None, State({}, {}, 1)):
        monkeypatch.setattr(Project, "state", lambda *_, more=more: more)
        assert not Project(project).bare("s")


def test_what_was_read_holds_for_a_moment_and_not_past_an_engine_of_ours(project, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    stack = {"type": "pulumi:pulumi:Stack", "outputs": {"n": 0}}
    (project / "export.json").write_text(json.dumps({"deployment": {"resources": [stack]}}), encoding="utf-8")
    fake_pulumi(tmp_path, 'echo x >>asked; sed "s/0/$(wc -l <asked)/" export.json')
    clock = [1000.0]
    monkeypatch.setattr("flexserve.project.time.monotonic", lambda: clock[0])
    here = Project(project)

    def look(stack="s"):
        return here.outputs(stack)["n"]

    assert [look(), look()] == [1, 1] and look("other") == 2
    here.outputs("s")["n"] = 99
    assert look() == 1  # what somebody does with an answer is his own
    clock[0] += MOMENT_S
    assert look() == 3
    with here.changing():
        assert [look(), look()] == [4, 5]
    assert [look(), look()] == [6, 6]
    with pytest.raises(ZeroDivisionError), here.changing():
        _ = 1 / 0
    assert look() == 7
