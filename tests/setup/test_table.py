"""The step table: what holds for every row."""

import dataclasses

import pytest

from tools.setup.step import ACCOUNT, GROUPS, REHEARSAL, TESTS, closure
from tools.setup.table import STEPS, names

BY_NAME = {step.name: step for step in STEPS}


def test_names_are_unique():
    assert len(BY_NAME) == len(STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.name)
def test_a_step_is_complete(step):
    assert step.about and step.limit_s > 0
    assert set(step.needs) <= set(BY_NAME)
    assert step.group in GROUPS


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.name)
def test_needs_come_earlier_so_there_is_no_circle(step):
    earlier = [s.name for s in STEPS[: STEPS.index(step)]]
    assert set(step.needs) <= set(earlier)


def test_an_operator_with_an_account_needs_neither_root_nor_the_machine():
    account = closure(STEPS, names(ACCOUNT))
    assert {s.group for s in account} == {ACCOUNT}
    assert {"venv", "command", "pulumi", "language-python", "links", "providers"} <= {s.name for s in account}
    assert "apt" in names(REHEARSAL) and set(names(ACCOUNT)) < set(names(REHEARSAL))


def test_the_rehearsal_brings_its_own_plugin_and_an_operator_is_only_told():
    assert "session-manager-plugin" in names(REHEARSAL) and "session-manager-plugin" not in names(ACCOUNT)
    assert "aws-plugin" in names(ACCOUNT) and BY_NAME["aws-plugin"].takes_mb == 0
    assert names(TESTS) == [step.name for step in STEPS]


def test_closure_brings_what_is_needed():
    assert [s.name for s in closure(STEPS, ["links"])] == ["venv", "pulumi", "language-python", "links"]
    with pytest.raises(KeyError):
        closure(STEPS, ["nonsense"])


INPUTS = {
    "venv": ["requirements.lock"],
    "command": ["requirements.lock", "pyproject.toml"],
    "bytecode": ["requirements.lock"],
    "pulumi": ["tools/pulumi/go.mod", "tools/pulumi/go.sum"],
    "language-python": ["tools/language-python/go.mod", "tools/language-python/go.sum"],
    "session-manager-plugin": ["tools/session-manager-plugin/go.mod", "tools/session-manager-plugin/uuid/uuid.go"],
}


@pytest.mark.parametrize(("name", "file"), [(n, f) for n, files in INPUTS.items() for f in files])
def test_a_key_changes_with_its_inputs_and_only_then(host, name, file):
    key = BY_NAME[name].key
    before = key(host)
    assert key(host) == before
    with (host.root / file).open("a") as out:
        out.write("\n// or # changed\n")
    assert key(host) != before


def test_the_key_of_the_environment_holds_its_place(host):
    elsewhere = dataclasses.replace(host, root=host.root.parent / "elsewhere")
    (elsewhere.root).mkdir()
    (elsewhere.root / "requirements.lock").write_bytes((host.root / "requirements.lock").read_bytes())
    assert BY_NAME["venv"].key(elsewhere) != BY_NAME["venv"].key(host)
