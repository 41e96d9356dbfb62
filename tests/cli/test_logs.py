"""`logs`: what is there, what is new, and the end of it."""

from __future__ import annotations

import pytest

from flexserve.commands import logs as command
from tests.cli.conftest import document
from tests.cli.fakes import World


@pytest.fixture
def world(project, monkeypatch):
    made = World().lives()
    made.live.text = "first line\n"
    monkeypatch.setattr(command, "parts", lambda *args: made.parts())
    return made


def test_all_of_it(world, flexserve):
    assert flexserve("logs", "-s", "tpu-v6e") == (0, "first line\n", "")
    assert document(flexserve("logs", "-s", "tpu-v6e", "--json")[1]) == {"stack": "tpu-v6e", "text": "first line\n", "next": 11}


def test_following_prints_what_is_new_until_the_machine_is_gone(world, flexserve):
    def more() -> None:
        world.live.text += "second line\n"

    def gone() -> None:
        world.live.machine, world.clock.at = None, 14400.0

    world.clock.on_sleep = [more, gone]
    code, out, err = flexserve("logs", "-s", "tpu-v6e", "-f")
    assert (code, out) == (8, "first line\nsecond line\n") and "expired" in err


def test_ctrl_c_ends_following(world, flexserve):
    def press() -> None:
        raise KeyboardInterrupt

    world.clock.on_sleep = [press]
    code, out, err = flexserve("logs", "-s", "tpu-v6e", "-f")
    assert (code, out) == (130, "first line\n") and "the machine goes on" in err


def test_a_log_that_went_with_its_machine(world, flexserve):
    world.live.text, world.live.machine = "", None
    assert flexserve("logs", "-s", "tpu-v6e")[0] == 8


def test_following_has_no_single_document(world, flexserve):
    assert flexserve("logs", "-s", "tpu-v6e", "-f", "--json")[0] == 2


def test_a_stack_that_is_not_up(world, flexserve):
    world.ref = None
    code, _, err = flexserve("logs", "-s", "tpu-v6e")
    assert code == 1 and "is not up" in err and "flexserve up -s" in err
