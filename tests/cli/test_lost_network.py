"""A network that goes away while `up` works: waited for, a bounded time; then it says what stands and how to go on."""

from __future__ import annotations

import pytest

from flexserve.lifecycle.parts import Changes
from flexserve.lifecycle.up import READ_BACK_S
from flexserve.lifecycle.wait import until_serving
from infra.clouds.http import NoNetwork
from tests.cli.fakes import World, boot, created
from tests.cli.test_up import run
from verdict.errors import Interrupted


def test_a_network_that_is_away_is_waited_for():
    """A closed lid, another wifi: the machine boots on, and bills."""
    world = World().lives(boot("booting", phase="docker"))
    live, looks = world.live, []
    find = live.find

    def away(ref):
        looks.append(ref)
        if 1 < len(looks) < 5:
            raise NoNetwork("compute.test does not answer")
        if len(looks) >= 6:
            live.report = boot()
        return find(ref)

    live.find = away
    _, answer = until_serving(world.parts(), live, world.ref, timeout_s=600, report=lambda status: None)
    assert answer.ok and len(looks) >= 6


def test_a_network_that_stays_away_ends_with_its_error():
    world = World().lives(boot("booting", phase="docker"))

    def away(ref):
        raise NoNetwork("compute.test does not answer", way_out="check the network, then try again")

    world.live.find = away
    with pytest.raises(NoNetwork) as caught:
        until_serving(world.parts(), world.live, world.ref, timeout_s=60, report=lambda status: None)
    assert caught.value.way_out == "check the network, then try again; the machine bills until `flexserve down -s s`"


def lost(world: World, looks: int, asked: list[float]):
    """An `up` that ends well; then the network is away for so many looks."""

    def run(world: World) -> Changes:
        changes = created(world)
        find = world.live.find

        def away(ref):
            asked.append(world.clock.at)
            if len(asked) <= looks:
                raise NoNetwork("compute.test does not answer", why="no route", way_out="check the network, then try again")
            return find(ref)

        world.live.find = away
        return changes

    world.ups = run
    return world


def test_a_network_that_is_lost_after_the_create_is_waited_for_and_the_machine_is_read_back():
    asked: list[float] = []
    served, _, said = run(lost(World(), 5, asked))
    assert served.answer.ok and len(asked) > 5
    assert sum("what was made is recorded" in line for line in said) == 1


@pytest.mark.parametrize("wait", [True, False], ids=["waiting", "--no-wait"])
def test_a_network_that_stays_away_after_the_create_ends_bounded_with_what_was_made_and_how_to_go_on(wait):
    asked: list[float] = []
    world = lost(World(), 10**9, asked)
    with pytest.raises(NoNetwork) as caught:
        run(world, wait=wait)
    error = caught.value
    assert READ_BACK_S <= asked[-1] - asked[0] < READ_BACK_S + 10
    assert error.what.startswith("fs-1 in europe-west4-a stands (12 created, id id1), but cannot be read back: compute.test")
    assert "`flexserve up -s s` makes nothing twice" in error.way_out and "`flexserve down -s s`" in error.way_out
    assert world.ref is not None and world.ref.id == "id1" and world.live.machine is not None


def test_after_a_lost_network_the_next_up_reads_back_what_stands_and_creates_nothing():
    world = lost(World(), 10**9, [])
    with pytest.raises(NoNetwork):
        run(world)
    del world.live.find  # the network is back
    world.calls.clear()
    world.previewed = Changes({"same": 12})
    served, *_ = run(world)
    assert served.already and served.answer.ok and world.calls == ["preview", "ask"]


def test_a_ctrl_c_while_the_network_is_away_says_that_the_machine_bills():
    def interrupted():
        raise KeyboardInterrupt

    world = lost(World(), 10**9, [])
    ups = world.ups

    def then_stopped(world: World) -> Changes:
        changes = ups(world)
        world.clock.on_sleep = [interrupted]
        return changes

    world.ups = then_stopped
    with pytest.raises(Interrupted, match="goes on booting and bills"):
        run(world)
