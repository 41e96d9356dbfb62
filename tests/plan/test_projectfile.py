"""`Pulumi.yaml`'s own `config:`: the commands read what Pulumi hands to the program; the engine itself is asked."""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from infra import goyaml, projectfile, stackfile
from infra.deployment import from_stack_file
from infra.projecttypes import text_of
from verdict.errors import BadConfig

PROJECT = "name: flexserve\nruntime: python\nstackConfigDir: stacks\n"
STACK = "config:\n  flexserve:window: 4h\n  flexserve:target: {project: acme-1, nested: {a: 1}}\n"
TAKEN = """
config:
  owner: ops
  flexserve:egress: {value: nat}
  serving: {value: {max_model_len: 4096, text_only: true}}
  allow: [disk-too-small]
  disk: 200
  truth: true
  typed: {type: integer, default: 5, description: how many}
  window: 8h
  flexserve:target.zone: {default: us-east5-b}
  flexserve:target.project: other
  flexserve:target.nested.b: two
  flexserve:fresh.inner: three
  flexserve:fresh..deep..er: four
  flexserve:config:old: five
  gcp:region: us-east5
  aws:skip: {value: [a, b]}
"""


def read(project: str, stack: str = STACK) -> dict:
    config = stackfile.config_of("s", stack)
    return projectfile.applied(config, goyaml.parse(project, projectfile.FILE))


def as_text(value):
    """Outside of a group of keys Pulumi has text only."""
    return value if isinstance(value, dict | list) else text_of(value)


def test_each_form_of_a_value_is_read():
    found = read(PROJECT + TAKEN)
    assert found["flexserve:owner"] == "ops" and found["flexserve:egress"] == "nat" and found["flexserve:typed"] == 5
    assert found["flexserve:serving"] == {"max_model_len": 4096, "text_only": True} and found["flexserve:allow"] == [
        "disk-too-small"
    ]
    assert found["gcp:region"] == "us-east5" and found["aws:skip"] == ["a", "b"]
    assert found["flexserve:fresh"] == {"inner": "three", "deep": {"er": "four"}} and found["flexserve:old"] == "five"


def test_what_the_stack_file_says_wins_as_a_whole():
    found = read(PROJECT + TAKEN)
    assert found["flexserve:window"] == "4h"
    assert found["flexserve:target"] == {"project": "acme-1", "zone": "us-east5-b", "nested": {"a": 1, "b": "two"}}
    assert read(PROJECT + "config: {target: {value: {kind: other}}}")["flexserve:target"] == {
        "project": "acme-1",
        "nested": {"a": 1},
    }


@pytest.mark.skipif(shutil.which("pulumi") is None, reason="pulumi is not on PATH; `make setup` puts it there")
def test_the_engine_reads_the_same(tmp_path):
    (tmp_path / "stacks").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "Pulumi.yaml").write_text(PROJECT + TAKEN)
    (tmp_path / "stacks" / "Pulumi.s.yaml").write_text(STACK)
    environ = os.environ | {
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/state", "PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_SKIP_UPDATE_CHECK": "true",
    }  # fmt: skip

    def pulumi(*words: str) -> str:
        argv = ["pulumi", *words, "--non-interactive"]
        done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    pulumi("stack", "init", "s")
    theirs = {key: said.get("objectValue", said.get("value")) for key, said in json.loads(pulumi("config", "--json")).items()}

    assert {key: as_text(value) for key, value in read(PROJECT + TAKEN).items()} == theirs


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("owner: {default: a, value: b}", "owner has both a default and a value"),
        ("share: 0.5", "does not take a value of this kind"),
        ("target: {kind: gce_flex}", "write `value:` before it"),
        ("gcp:project: {default: x}", "gcp:project is not a key of this project"),
        ("gcp:project: {description: x}", "gcp:project has no value"),
        ("owner: {description: who pays}", "flexserve:owner: missing"),
        ("owner: {type: string}", "declares it without a value"),
        ("flexserve:target.zones[0]: x", "a path with brackets is not read"),
        ("flexserve:target.project.x: y", "flexserve:target.project is not a group of keys in the stack file"),
        ("owner: {type: integer, default: abc}", "the default is not of type integer"),
        ("owner: {type: array, default: [a]}", "does not say of what"),
        ("owner: {type: array, items: {type: integer}, default: [a]}", "the default is not of type array<integer>"),
        ("window: {type: integer}", "flexserve:window is not of type integer"),
        ("window: {type: string, secret: true}", "flexserve:window stands there for all to read"),
        ("a:b:c: x", "'a:b:c' is no key that Pulumi takes"),
        ("target.: x", "'target.' is no key that Pulumi takes"),
    ],
)
def test_what_pulumi_would_not_take_is_refused(config, says):
    with pytest.raises(BadConfig) as error:
        read(f"{PROJECT}config:\n  {config}\n")
    assert says in str(error.value)


RECORDED = tomllib.loads((Path(__file__).parent / "project_config.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['project']} | {case.get('stack', '')}")
def test_it_agrees_with_what_pulumi_did(case):
    stack = "config:\n" + "".join(f"  {line}\n" for line in case.get("stack", ["flexserve:window: 4h"]))
    project = f"{PROJECT}config:\n  {case['project']}\n"
    if "refused" in case or case.get("brackets"):
        with pytest.raises(BadConfig) as error:
            read(project, stack)
        assert error.value.what and (not case.get("brackets") or "brackets" in error.value.what)
    else:
        handed = {key: json.loads(said) if said[:1] in "{[" else said for key, said in json.loads(case["gives"]).items()}
        assert {key: as_text(value) for key, value in read(project, stack).items()} == handed


def test_an_encrypted_value_is_not_looked_into():
    stack = "config:\n  flexserve:owner: {secure: v1:abc}\n"
    found = read(f"{PROJECT}config:\n  owner: {{type: integer, secret: true}}\n", stack)
    assert found["flexserve:owner"] == {"secure": "v1:abc"}


def test_a_config_that_is_a_folder_is_refused():
    with pytest.raises(BadConfig, match="stackConfigDir"):
        read(PROJECT + "config: stacks\n")


@pytest.fixture
def project(root, tmp_path):
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text((root / "Pulumi.yaml").read_text(encoding="utf-8"))
    text = (root / "stacks" / "Pulumi.tpu-v6e.yaml").read_text(encoding="utf-8")
    (tmp_path / "stacks" / "Pulumi.tpu-v6e.yaml").write_text(text)
    return tmp_path


def test_the_shipped_project_says_nothing_and_need_not_be_read(root):
    text = (root / "Pulumi.yaml").read_text(encoding="utf-8")
    assert projectfile.says_nothing(text) and "config" not in yaml.safe_load(text)


def test_the_plan_holds_the_projects_value_and_set_goes_over_it(project):
    file = project / "stacks" / "Pulumi.tpu-v6e.yaml"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "flexserve:window" not in line))
    with (project / "Pulumi.yaml").open("a") as out:
        out.write("config:\n  window: 20m\n  owner: {value: ops}\n")
    found = from_stack_file(project, "tpu-v6e")
    assert found.common.window == 1200 and found.common.owner == "ops"
    assert from_stack_file(project, "tpu-v6e", ["window=30m"]).common.window == 1800


def test_a_wrong_key_of_the_project_is_refused_as_the_stack_files(project):
    with (project / "Pulumi.yaml").open("a") as out:
        out.write("config:\n  windo: 20m\n")
    with pytest.raises(BadConfig, match="did you mean window"):
        from_stack_file(project, "tpu-v6e")


def test_a_project_file_that_is_no_yaml_is_refused(project):
    with (project / "Pulumi.yaml").open("a") as out:
        out.write("config: [\n")
    with pytest.raises(BadConfig, match=r"Pulumi\.yaml is not YAML"):
        from_stack_file(project, "tpu-v6e")
