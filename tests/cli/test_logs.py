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
    shown = {"stack": "tpu-v6e", "text": "first line\n", "next": 11, "left_out": 0}
    assert document(flexserve("logs", "-s", "tpu-v6e", "--json")[1]) == shown


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


def pieces_of(world, size: int) -> list[int]:
    """The world's log comes in pieces of so many characters; the offsets that were asked for."""
    asked: list[int] = []

    def log(deployment, *, since=0):
        asked.append(since)
        text = world.live.text[since : since + size]
        return text, since + len(text)

    world.live.log = log
    return asked


def test_a_log_of_many_pieces_is_printed_whole_by_each_way(world, flexserve):
    world.live.text = whole = "".join(f"line {n}\n" for n in range(9000))
    asked = pieces_of(world, command.SHORT)
    assert flexserve("logs", "-s", "tpu-v6e") == (0, whole, "")
    assert asked == list(range(0, len(whole), command.SHORT))
    found = document(flexserve("logs", "-s", "tpu-v6e", "--json")[1])
    assert (found["text"], found["next"], found["left_out"]) == (whole, len(whole), 0)

    def press() -> None:
        raise KeyboardInterrupt

    world.clock.on_sleep = [press]  # the first sleep: what was there is out by then
    code, out, _ = flexserve("logs", "-s", "tpu-v6e", "-f")
    assert (code, out) == (130, whole)


def test_a_log_that_goes_on_growing_ends_where_it_was(world, flexserve):
    asked = pieces_of(world, command.SHORT)
    read = world.live.log

    def log(deployment, *, since=0):
        world.live.text += "more\n"
        return read(deployment, since=since)

    world.live.text, world.live.log = "x" * command.SHORT + "\n", log
    code, out, _ = flexserve("logs", "-s", "tpu-v6e")
    assert (code, len(asked)) == (0, 2) and out.endswith("more\n")


def test_one_document_holds_the_newest_and_says_what_it_leaves_out(world, flexserve, monkeypatch):
    monkeypatch.setattr(command, "MOST", 10_000)
    world.live.text = whole = "".join(f"line {n}\n" for n in range(9000))
    pieces_of(world, command.SHORT)
    code, out, err = flexserve("logs", "-s", "tpu-v6e", "--json")
    found = document(out)
    assert code == 0 and found["text"] == whole[-10_000:] and found["left_out"] == len(whole) - 10_000
    assert f"the first {len(whole) - 10_000:,} characters are left out" in err
