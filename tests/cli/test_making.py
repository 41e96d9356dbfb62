"""`status` of a stack that serves from a build: what is kept, and the machine that makes one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from catalog.loader import Catalog
from flexserve.lifecycle.making import look
from flexserve.lifecycle.parts import Leftover
from infra.plan import make_plan
from infra.targets.protocol import DeploymentRef, KeptBuild
from tests.cli.fakes import START, FakeLive, FakeNote, World, boot, machine
from verdict.errors import NoAccess

KEPT = KeptBuild("s3://fs-b/builds/key/", 1_200_000_000, {}, 0.0257)


class Bucket:
    key = "key"

    def __init__(self, kept: KeptBuild | None = None) -> None:
        self._kept = kept

    def kept(self) -> KeptBuild | None:
        return self._kept


def at_work(**about: object) -> Leftover:
    """A builder that has compiled for half an hour."""
    side = FakeLive(machine(name="fs-b-builder", where="us-east-1a", provisioning="spot", **about), boot("booting", phase="wheel"))
    side.passed = timedelta(minutes=30)
    return Leftover(side, DeploymentRef("s", "b", {"build": "key"}), FakeNote())


@pytest.fixture
def making(g5g_spot):
    """(bucket, builder, stack file) -> what `status` would say."""

    def run(kept: KeptBuild | None = None, left: Leftover | None = None, *sets: str):  # type: ignore[no-untyped-def]
        return look(Bucket(kept), lambda: left, make_plan(g5g_spot(*sets), Catalog.load()).building)

    return run


def test_neither(making):
    assert making().as_dict() == {"key": "key", "kept": None, "builder": None}
    assert making().rows() == [("build", "key: none is kept")]


def test_a_kept_build_with_its_price(making):
    seen = making(KEPT)
    assert seen.as_dict()["kept"] == {"place": KEPT.place, "bytes": KEPT.size, "price_per_month": 0.0257}
    assert seen.rows() == [("build", "key: 1.20 GB in s3://fs-b/builds/key/, $0.0257 a month")]


def test_a_builder_with_its_id_since_when_and_what_it_costs(making):
    """Nobody knows the spot price: then the usual one is the most that it can be."""
    builder = making(None, at_work()).as_dict()["builder"]
    most = builder.pop("price_per_hour_at_most")
    assert 1.3 < most < 1.4 and builder == {
        "id": "b",
        "machine": "fs-b-builder",
        "where": "us-east-1a",
        "key": "key",
        "phase": "wheel",
        "since": START.isoformat(),
        "seconds": 1800,
        "price_per_hour": None,
        "cost_so_far": round(most / 2, 4),
    }
    (_, line) = making(None, at_work()).rows()[1]
    assert line.startswith("fs-b-builder in us-east-1a since 2026-01-02 03:04:05 UTC, phase wheel, at most $0.6")
    known = making(None, at_work(), "target.build.on_demand=only").as_dict()["builder"]
    assert known["price_per_hour"] == most == known["price_per_hour_at_most"]


def test_a_builder_that_was_given_at_the_usual_price_costs_that(making):
    left = at_work()
    left.live.machine = replace(left.live.machine, provisioning="on_demand")
    assert making(None, left).at_work.price_per_hour == making(None, left).at_work.most_per_hour


def test_a_builder_of_another_build_is_told_as_such(making):
    other = at_work()
    other = replace(other, ref=DeploymentRef("s", "b", {"build": "older"}))
    assert making(None, other).rows()[1][1].endswith("; it makes another build, older")


@pytest.mark.parametrize("state", ["terminated", "shutting-down"])
def test_one_that_ends_is_none(making, state):
    assert making(None, at_work(cloud_state=state)).at_work is None
    gone = at_work()
    gone.live.machine = None
    assert making(None, gone).at_work is None


def test_a_price_that_is_unknown_is_unknown(making):
    row = making(None, at_work(), "target.region=us-west-2", "target.zones=[us-west-2a]").rows()[1][1]
    assert row.endswith(", at an unknown price")


@pytest.fixture
def status(project, flexserve, monkeypatch):
    """`flexserve status` of a stack that is down, whose build is as said."""
    from flexserve.commands import status as command

    def run(making_, *words):
        monkeypatch.setattr(command, "parts", lambda *_: replace(World().parts(), making=making_))
        return flexserve("status", "-s", "tpu-v6e", *words)

    return run


def test_the_document_and_the_page_tell_it_though_the_stack_is_down(status, making):
    seen = making(KEPT, at_work())
    code, out, _ = status(lambda: seen, "--json")
    assert code == 0 and json.loads(out)["state"] == "absent" and json.loads(out)["build"] == seen.as_dict()
    _, out, _ = status(lambda: seen)
    assert "  build    key: 1.20 GB" in out and "  builder  fs-b-builder in us-east-1a" in out


def test_a_stack_that_serves_from_an_image_has_no_such_key(status):
    assert "build" not in json.loads(status(lambda: None, "--json")[1])


def test_a_cloud_that_does_not_say_is_no_failure_of_status(status):
    def closed():
        raise NoAccess("no AWS credentials")

    code, out, err = status(closed, "--json")
    assert code == 0 and "build" not in json.loads(out)
    assert "whether a build is kept or being made cannot be seen: no AWS credentials" in err
