"""The machine's parts: built where the machine looks for them."""

import dataclasses

import pytest

from tools.setup.step import Skip, StepFailed
from tools.setup.steps import apt, machine

BUILDER = """
set -e
PATH=/usr/bin:/bin
case "$*" in
*--key) echo "key-$3" ;;
*) shift 3; while [ $# -gt 1 ]; do [ "$1" = --into ] && into=$2; shift; done; mkdir "$into"; echo whole > "$into/file"; %s ;;
esac
"""


@pytest.fixture
def rooted(host, command):
    for name in apt.COMMANDS:
        command(name, "true")
    return dataclasses.replace(host, uid=0)


@pytest.mark.parametrize("part", ["root", "images", "repo"])
def test_a_part_is_built_into_the_folder_of_its_key(rooted, work, command, part):
    command("python", BUILDER % "true", rooted.bin)
    assert machine.done(part, rooted) is None
    machine.run(part, rooted, work)
    assert (rooted.cache / f"machine-{part}-key-{part}" / "file").read_text() == "whole\n"
    assert machine.done(part, rooted)


def test_a_build_that_fails_leaves_nothing(rooted, work, command):
    command("python", BUILDER % "exit 4", rooted.bin)
    with pytest.raises(StepFailed) as failed:
        machine.run("root", rooted, work)
    assert failed.value.exit_code == 4 and list(rooted.cache.iterdir()) == []


def test_without_root_the_sandbox_stands_in(host, work):
    with pytest.raises(Skip, match="sandbox"):
        machine.run("root", host, work)
