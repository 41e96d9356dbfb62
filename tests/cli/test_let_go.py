"""A machine that the cloud refuses to delete just now: `down` asks again, and the engine waits."""

from __future__ import annotations

import pytest

from flexserve.lifecycle.down import down
from infra.targets.protocol import Billable
from tests.cli.fakes import World
from tests.cli.test_watched import Held
from verdict.errors import FlexserveError, NoAccess, TimedOut


class Refusing(Held):
    """Begins to change just after it was looked at: the first deletes are refused."""

    def __init__(self, refusals: int, error: FlexserveError) -> None:
        super().__init__(0)
        self.refusals, self.error, self.asked = refusals, error, 0
        self.things = [Billable("endpoint", "fs-1", "here", 1.0)]

    def delete(self, thing: Billable) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise self.error
        super().delete(thing)


@pytest.mark.parametrize(
    ("refusals", "error", "asked", "gone"),
    [
        (1, FlexserveError("AWS refused", why="it is Updating"), 2, True),
        (2, FlexserveError("AWS refused"), 3, True),
        (3, FlexserveError("AWS refused"), 3, False),
        (1, NoAccess("no right to delete it", way_out="ask for it"), 1, False),
        (1, TimedOut("it takes longer than 10 minutes", way_out="look again later"), 1, False),
    ],
)
def test_down_asks_again_when_a_delete_is_refused_and_runs_no_engine_before_it_is_gone(refusals, error, asked, gone):
    world = World(live=Refusing(refusals, error)).lives()
    said: list[str] = []
    left = down(world.parts(), purge=False, say=said.append, tokens=lambda _: None).left_behind
    assert (world.live.asked, world.calls, left == ()) == (asked, ["destroy"] if gone else [], gone)
    assert sum("asks again" in line for line in said) == asked - 1
