"""`up` over an order of places, with a fake engine and cloud: what goes on, what stops, what is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexserve.lifecycle.failover import AllOut, by_chance, told
from flexserve.lifecycle.parts import Changes, EngineFailed
from flexserve.lifecycle.up import Served, Wanted, WrongMachine, up
from infra.clouds.http import NoNetwork
from infra.places import Place
from infra.targets.protocol import Billable, DeploymentRef, Failure, Machine
from tests.cli.fakes import FakeLive, World, boot, created, destroyed, failed_boot, machine
from verdict.errors import FlexserveError, Interrupted, NoAccess, NoCapacity, TimedOut
from verdict.exit_codes import ExitCode

WAY = "flex_start"
A, B, C = (Place(f"r-{z}", f"r-{z}", "m1", WAY, "r", 1.0, 4.0) for z in "abc")
ELSEWHERE = Place("q-a", "q-a", "m1", WAY, "q", 1.5, 6.0)
USUAL = Place("r-a/on-demand", "r-a", "m1", "on_demand", "r on_demand", 3.0, 12.0)
OUT = {"r-a": "EXHAUSTED in a", "r-b": "EXHAUSTED in b", "r-c": "EXHAUSTED in c"}


def where(outcomes: Mapping[str, str | Exception], *, failure: Failure | None = None, way: str = WAY):
    """An engine for which each place has its own outcome; a place without one gets the machine, where and as it was asked for."""

    def run(world: World) -> Changes:
        place = world.calls[-1].partition(" ")[2]
        said = outcomes.get(place)
        world.ref = DeploymentRef("s", "id1", {"id": "id1"})
        if failure is not None:
            world.live.failure = failure
        if isinstance(said, Exception):
            raise said
        if said is not None:
            raise EngineFailed("pulumi up failed", diagnostics=(said,), log=f"{place}.log")
        changes = created(world)
        given = "on_demand" if place.endswith("on-demand") else way
        world.live.machine = machine(where=place.partition("/")[0], provisioning=given)
        return changes

    return run


def run(world: World, *places: Place, consent=lambda changes: None) -> tuple[Served, list[str]]:
    said: list[str] = []
    wanted = Wanted((WAY, "on_demand"), 1800, True, places)
    return up(world.parts(), wanted, consent=consent, report=lambda status: None, say=said.append), said


def test_the_next_place_is_asked_at_once_and_serves():
    world = World(ups=where({"r-a": "EXHAUSTED"}))
    served, said = run(world, A, B, C)
    assert world.calls == ["up r-a", "up r-b", "ask"] and world.clock.at == 4.0  # two looks while it boots, no wait between places
    assert served.answer.ok and served.status.zone == "r-b"
    assert [(t.place, t.what) for t in served.tries] == [("r-a", "the zone has none of this machine type now")]
    assert any("r-a" in line and "place 1 of 3" in line for line in said) and any("r-b at $1/h" in line for line in said)


def test_the_first_place_that_has_it_is_the_only_one_asked():
    world = World()
    assert run(world, A, B)[0].tries == () and world.calls == ["up r-a", "ask"]


def test_when_all_are_out_one_table_tells_each_and_the_code_is_4():
    world = World(ups=where(OUT))
    with pytest.raises(AllOut) as caught:
        run(world, A, B, C)
    error = caught.value
    assert (error.exit_code, world.calls) == (ExitCode.NO_CAPACITY, ["up r-a", "up r-b", "up r-c"])
    lines = str(error).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["r-a", "r-b", "r-c"] and "none of the 3 places" in lines[0]
    document = error.as_dict()["error"]
    assert [t["place"] for t in document["tries"]] == ["r-a", "r-b", "r-c"] and document["kind"] == "no-capacity"
    assert "flexserve down" not in error.way_out and error.way_out == "the full logs are r-a.log, r-b.log, r-c.log"


def test_what_the_tries_made_and_still_bills_is_named():
    world = World(ups=where(OUT))
    world.live.things = [Billable("nat-gateway", "nat-1", "r", 0.045), Billable("network", "n", "r", 0.0)]
    with pytest.raises(AllOut) as caught:
        run(world, A, B)
    assert "$0.045/h (nat-gateway nat-1): flexserve down -s s" in caught.value.way_out


def test_a_single_place_ends_as_it_always_did():
    with pytest.raises(NoCapacity) as caught:
        run(World(ups=where(OUT)), A)
    assert not isinstance(caught.value, AllOut) and "r-a.log" in caught.value.way_out


@pytest.mark.parametrize(
    ("said", "error"),
    [("timeout while waiting", TimedOut), ("something new", EngineFailed), (Interrupted("stopped"), Interrupted)],
)
def test_what_no_other_place_mends_stops_at_once(said, error):
    world = World(ups=where({"r-b": said, **{k: v for k, v in OUT.items() if k != "r-b"}}))
    with pytest.raises(error):
        run(world, A, B, C)
    assert world.calls == ["up r-a", "up r-b"]


def quota_live(world: World) -> None:
    """A cloud whose quota is counted by region and way."""
    plain = world.live.explain

    def explain(text: str, code: str = "") -> FlexserveError | None:
        error = plain(text, code)
        if isinstance(error, NoAccess):
            error.elsewhere = "quota"
        return error

    world.live.explain = explain


def test_a_quota_is_asked_about_once_and_another_one_may_do():
    world = World(ups=where({"r-a": "QUOTA", "r-b": "QUOTA"}))
    quota_live(world)
    served, _ = run(world, A, B, ELSEWHERE)
    assert world.calls == ["up r-a", "up q-a", "ask"]
    assert [(t.place, t.seconds is None) for t in served.tries] == [("r-a", False), ("r-b", True)]
    assert "refused in r-a" in served.tries[1].what


def test_nothing_but_quotas_is_no_want_of_capacity():
    world = World(ups=where({"r-a": "QUOTA", "q-a": "QUOTA"}))
    quota_live(world)
    with pytest.raises(NoAccess) as caught:
        run(world, A, B, ELSEWHERE)
    assert caught.value.exit_code == ExitCode.NO_ACCESS and world.calls == ["up r-a", "up q-a"]


def test_a_quota_and_a_stock_out_are_a_stock_out():
    world = World(ups=where({"r-a": "QUOTA", "q-a": "EXHAUSTED"}))
    quota_live(world)
    with pytest.raises(AllOut):
        run(world, A, ELSEWHERE)


def test_a_record_of_another_zone_says_nothing_about_this_one():
    """The first place's stock-out is known from the cloud's record only; the second fails for a reason that nobody knows."""
    stock_out = Failure("ZONE_RESOURCE_POOL_EXHAUSTED", "no more", "r-a")
    world = World(ups=where({"r-a": "does not say", "r-b": "does not say"}, failure=stock_out))
    with pytest.raises(EngineFailed):
        run(world, A, B, C)
    assert world.calls == ["up r-a", "up r-b"]


def test_a_machine_that_came_all_the_same_is_not_left_for_another_place():
    def late(world: World) -> Changes:
        world.ref, world.live.machine = DeploymentRef("s", "id1", {"id": "id1"}), machine()
        raise EngineFailed("pulumi up failed", diagnostics=("EXHAUSTED",))

    world = World(ups=late)
    with pytest.raises(NoCapacity) as caught:
        run(world, A, B)
    assert not isinstance(caught.value, AllOut) and world.calls == ["up r-a"]


def test_where_nobody_can_tell_whether_a_machine_came_no_other_place_is_asked():
    """The network goes right after the refusal: what the cloud said is what is told."""

    def away(ref):
        raise NoNetwork("compute.test does not answer")

    def out(world: World) -> Changes:
        world.ref, world.live.find = DeploymentRef("s", "id1", {"id": "id1"}), away
        raise EngineFailed("pulumi up failed", diagnostics=("EXHAUSTED",))

    world = World(ups=out)
    with pytest.raises(NoCapacity):
        run(world, A, B)
    assert world.calls == ["up r-a"]


def test_a_live_machine_is_never_moved():
    world = World(previewed=Changes({"update": 1}), ups=where({"": "EXHAUSTED"})).lives()
    with pytest.raises(NoCapacity):
        run(world, A, B)
    assert world.calls == ["preview", "up"]


def test_a_live_machine_that_serves_is_asked_and_no_place_is():
    world = World(previewed=Changes({"same": 3})).lives()
    assert run(world, A, B)[0].already and world.calls == ["preview", "ask"]


def test_a_failed_boot_runs_again_where_it_is():
    def again(world: World) -> Changes:
        world.lives(boot())
        return Changes({"update": 1})

    world = World(previewed=Changes({"same": 3}), ups=again).lives(failed_boot())
    run(world, A, B)
    assert world.calls == ["preview", "rerun", "ask"]


def test_the_successor_of_a_machine_that_was_given_up_may_come_elsewhere():
    """`up --replace`: the quota is for one, so the old machine goes first; its zone has none for the new one."""
    outcomes = where({"r-a": "EXHAUSTED"})

    def replaced(world: World) -> Changes:
        if world.calls[-1] == "up":
            destroyed(world)
            world.ref = DeploymentRef("s", "id1", {"id": "id1"})
            raise EngineFailed("pulumi up failed", diagnostics=("EXHAUSTED",))
        return outcomes(world)

    world = World(previewed=Changes({"replace": 1}), ups=replaced).lives()
    served, said = run(world, A, B)
    assert world.calls == ["preview", "up", "up r-a", "up r-b", "ask"] and served.status.zone == "r-b"
    assert any("as you agreed to" in line for line in said)


def test_the_usual_price_is_taken_last_and_read_back():
    world = World(ups=where({**OUT}))
    served, _ = run(world, A, B, USUAL)
    assert world.calls == ["up r-a", "up r-b", "up r-a/on-demand", "ask"] and served.answer.ok


def test_a_machine_of_the_usual_price_where_spot_was_asked_for_is_refused():
    """Both ways are in the stack file; the one of the place that was asked is the one that was agreed to."""
    with pytest.raises(WrongMachine, match="is on_demand, not flex_start"):
        run(World(ups=where({}, way="on_demand")), A, USUAL)


def test_no_means_that_no_place_is_asked():
    def no(changes):
        raise FlexserveError("not confirmed")

    world = World()
    with pytest.raises(FlexserveError, match="not confirmed"):
        run(world, A, B, consent=no)
    assert world.calls == []


@dataclass
class Telling(FakeLive):
    """A cloud that forecasts; or refuses to."""

    scores: Mapping[str, int] = field(default_factory=dict)
    refuses: FlexserveError | None = None

    def chances(self, places: Sequence[Place]) -> Mapping[str, int]:
        if self.refuses:
            raise self.refuses
        return self.scores


def test_the_likelier_place_is_asked_first_and_that_is_said():
    world = World(live=Telling(scores={"r-a": 1, "r-b": 9}), ups=where({}))
    served, said = run(world, A, B)
    assert world.calls == ["up r-b", "ask"] and served.status.zone == "r-b" and any("r-b 9, r-a 1" in line for line in said)


def test_a_forecast_that_may_not_be_asked_for_is_said_and_the_order_stays():
    refuses = NoAccess("these credentials lack a permission", why="ec2:GetSpotPlacementScores")
    world = World(live=Telling(refuses=refuses), ups=where({}))
    _, said = run(world, A, B)
    assert world.calls == ["up r-a", "ask"]
    assert any("is not known" in line and "ec2:GetSpotPlacementScores" in line for line in said)


def test_the_places_are_ordered_before_the_question():
    asked: list[list[str]] = []
    said: list[str] = []
    world = World(live=Telling(scores={"r-b": 9}), ups=where({}))
    wanted = Wanted((WAY,), 60, False, (A, B))
    up(world.parts(), wanted, consent=lambda changes: asked.append(list(said)), report=lambda status: None, say=said.append)
    assert len(asked[0]) == 1 and "r-b 9" in asked[0][0]


PLACES = st.lists(
    st.builds(
        lambda zone, size, way: Place(f"{zone}/{size}/{way}", zone, size, way),
        st.sampled_from("abcd"),
        st.sampled_from(["m1", "m2"]),
        st.sampled_from(["spot", "on_demand"]),
    ),
    unique_by=lambda p: p.name,
)


@given(PLACES, st.dictionaries(st.sampled_from([f"{z}/{s}/spot" for z in "abcd" for s in ("m1", "m2")]), st.integers(1, 10)))
def test_chances_order_within_a_size_and_a_way_only(places, chances):
    found = by_chance(places, chances)
    groups = list(dict.fromkeys((p.size, p.way) for p in places))
    assert sorted(found, key=lambda p: p.name) == sorted(places, key=lambda p: p.name)
    assert list(dict.fromkeys((p.size, p.way) for p in found)) == groups
    for size, way in groups:
        inside = [p for p in found if (p.size, p.way) == (size, way)]
        scores = [chances.get(p.name, 0) for p in inside]
        assert scores == sorted(scores, reverse=True)
        for score in set(scores):
            same = [p for p in inside if chances.get(p.name, 0) == score]
            assert same == [p for p in places if p in same]


def test_the_table_has_a_line_for_each_place():
    served, _ = run(World(ups=where({"r-a": "EXHAUSTED"})), A, B)
    tries = [replace(t, seconds=3.0, why="Code: words") for t in served.tries]
    assert " ".join(told(tries).split()) == "r-a the zone has none of this machine type now 3.0 s Code: words"


def test_a_machine_dataclass_is_what_the_cloud_says():
    """The fakes' machine is in the place that was asked, or the tests above prove nothing."""
    world = World(ups=where({"r-a": "EXHAUSTED"}))
    run(world, A, B)
    assert isinstance(world.live.machine, Machine) and world.live.machine.where == "r-b"
