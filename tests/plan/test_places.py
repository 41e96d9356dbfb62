"""Where a stack is asked for: each place checked and priced by itself."""

from __future__ import annotations

import pytest

from catalog.loader import Catalog
from infra.places import at, places
from infra.plan import make_plan
from verdict.errors import Refused


def test_each_place_has_its_size_its_way_its_quota_and_its_price(g5g_spot):
    deployment = g5g_spot("target.zones=[us-east-1a, us-east-1b]", "target.larger=[g5g.2xlarge]", "target.on_demand=fall_back")
    found = places(deployment, Catalog.load())
    assert [p.name for p in found] == list(deployment.target.places)
    told = [(p.zone, p.size, p.way, p.quota) for p in found]
    assert told[0] == ("us-east-1a", "g5g.xlarge", "spot", "us-east-1 spot")
    assert told[2] == ("us-east-1a", "g5g.2xlarge", "spot", "us-east-1 spot")
    assert told[7] == ("us-east-1b", "g5g.2xlarge", "on_demand", "us-east-1 on_demand")
    prices = {p.name: p.per_hour for p in found}
    assert prices["us-east-1a"] == prices["us-east-1b"] == make_plan(deployment, Catalog.load()).cost.per_hour
    machine = {"us-east-1a": 0.128, "us-east-1a/g5g.2xlarge": 0.35, "us-east-1a/on-demand": 0.42}
    assert prices["us-east-1a/on-demand"] - prices["us-east-1a"] == pytest.approx(0.42 - 0.128)
    beside = {name: prices[name] - usd for name, usd in machine.items()}
    assert max(beside.values()) == pytest.approx(min(beside.values()))


def test_an_unknown_price_is_told_by_place(g5g_spot):
    found = places(g5g_spot("target.larger=[g5g.4xlarge]"), Catalog.load())
    assert [bool(p.unknown) for p in found] == [p.size == "g5g.4xlarge" for p in found] and found[-1].unknown


def test_zones_of_several_regions_have_the_quota_of_each(tpu_v6e):
    found = places(tpu_v6e("target.zones=[europe-west4-a, us-east5-a, us-east5-b]"), Catalog.load())
    assert [(p.name, p.way, p.quota) for p in found] == [
        ("europe-west4-a", "flex_start", "europe-west4"),
        ("us-east5-a", "flex_start", "us-east5"),
        ("us-east5-b", "flex_start", "us-east5"),
    ]


def test_a_further_place_that_breaks_a_rule_is_refused_before_the_first_is_asked(g5g_spot):
    deployment = g5g_spot("target.larger=[g5g.giant]", "allow=[zone-without-size]")
    assert make_plan(deployment, Catalog.load())
    with pytest.raises(Refused) as error:
        places(deployment, Catalog.load())
    assert error.value.rule == "unknown-machine-type" and "us-east-1a/g5g.giant" in error.value.why


def test_what_a_place_decides_is_what_the_program_decides_there(g5g_spot):
    deployment = g5g_spot("target.larger=[g5g.2xlarge]", "target.on_demand=fall_back")
    for name in deployment.target.places:
        there = at(deployment, name).target
        assert (there.zones, there.machine_type) == ((deployment.target.zone(name),), deployment.target.size(name))
        assert there.provisioning == deployment.target.given(name) and len(there.places) == 1
