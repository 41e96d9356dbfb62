"""What a life has cost: a table of prices and times, and the word that says how exact the sum is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from flexserve.commands.down import page as receipt_of
from flexserve.lifecycle.down import down
from flexserve.lifecycle.money import spent
from flexserve.lifecycle.show import page
from flexserve.lifecycle.state import Seen, describe
from flexserve.output import Output
from infra.targets.protocol import DeploymentRef
from tests.cli.fakes import START, World, boot, machine, outputs

AT = START.timestamp()
HOURS = timedelta(hours=2)
T4_L4 = {"prices": [[AT - 60, 0.736], [AT + 3600.0, 1.1267]]}
SCALES = {"price_per_hour": 0.736, "price_per_hour_most": 1.472}
GONE, FAILED = None, machine(dead="no machine")

CASES = [
    ("one price", {"price_per_hour": 0.5}, machine(), 1.0, ""),
    ("a card changed after an hour", T4_L4, machine(), 1.8627, "about"),
    ("another machine since", {"prices": [[AT - 9999, 9.0], [AT - 60, 0.5]]}, machine(), 1.0, "about"),
    ("a price that was not reached", {"prices": [[AT, 0.5], [AT + 9999, 9.0]]}, machine(), 1.0, "about"),
    ("more machines, then fewer", {"prices": [[AT, 1.472], [AT + 1800, 0.736]]}, machine(), 1.84, "about"),
    ("it scales", SCALES, machine(), 1.472, "at least"),
    ("it scales and changed", {**SCALES, **T4_L4}, machine(), 1.8627, "at least"),
    ("updated at one price", {"price_per_hour": 0.5}, machine(updated=True), 1.0, "at least"),
    ("updated to another price", T4_L4, machine(updated=True), 1.8627, "about"),
    ("gone, nobody knows when", {"price_per_hour": 0.5}, GONE, 1.0, "at most"),
    ("failed, nobody asked when", {"price_per_hour": 0.5}, FAILED, 1.0, "at most"),
    ("gone, and it scaled", SCALES, GONE, 1.472, "about"),
    ("a price of the past is unknown", {"prices": [[AT, None], [AT + 60, 1.0]]}, machine(), None, "about"),
    ("no price", {}, machine(), None, ""),
    ("what is kept is no list", {"prices": "x", "price_per_hour": 0.5}, machine(), 1.0, ""),
]


@pytest.mark.parametrize(("told", "there", "cost", "how"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_cost(told, there, cost, how):
    found = spent(told, there, START, START + HOURS)
    assert (found.cost, found.how) == (cost, how)


def test_status_says_how_exact_its_cost_is():
    ref = DeploymentRef("s", "id1", {**outputs(), **SCALES})
    status = describe("s", Seen(ref, START + HOURS, machine(), boot()))
    assert "at least $1.472 so far at $0.736/h to $1.472/h" in page(status, Output())
    assert status.as_dict()["cost_is"] == "at least"
    changed = describe("s", Seen(replace(ref, outputs={**outputs(), **T4_L4}), START + HOURS, machine(), boot()))
    assert "about $1.8627 so far, now at $1.5/h" in page(changed, Output())
    assert describe("s", Seen(ref, START, machine(), boot())).as_dict()["cost_is"] == "at least"


def test_the_receipt_is_the_sum_and_the_second_down_has_none():
    world = World().lives()
    world.ref = DeploymentRef("s", "id1", {**outputs(), **T4_L4})
    world.live.passed = HOURS
    gone = down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None)
    assert gone.as_dict()["receipt"]["cost"] == 1.8627 and gone.as_dict()["receipt"]["cost_is"] == "about"
    assert "receipt: 2h, about $1.8627 (0.736 dollars an hour, then 1.1267 dollars an hour" in receipt_of(gone)
    world.note.held, world.ref, world.bare, world.live.passed = DeploymentRef("s", "id1", outputs()), None, True, 2 * HOURS
    again = down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None)
    assert again.receipt is None and again.as_dict()["receipt"] is None and "receipt" not in receipt_of(again)


@pytest.mark.parametrize("made", [True, False])
def test_a_create_that_failed_has_a_receipt_where_a_machine_was_made(made):
    """Only what the program keeps is known: the time, and the price that it was to have."""
    world = World().lives()
    world.ref = DeploymentRef("s", "id1", {"id": "id1", "started": AT, "prices": [[AT, 0.5]]})
    world.live.machine, world.live.passed = (FAILED if made else None), HOURS
    receipt = down(world.parts(), purge=False, say=lambda _: None, tokens=lambda _: None).receipt
    assert receipt is None if not made else (receipt.seconds, receipt.cost, receipt.cost_is) == (7200, 1.0, "at most")
