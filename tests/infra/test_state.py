"""What a `pulumi stack export` document says."""

from __future__ import annotations

import pytest

from infra.kept import Kept, from_state
from infra.state import from_export

KEPT = Kept("x1", 5)
URN = "urn:pulumi:s::flexserve::pulumi:index:Stash::"
STACK = {"type": "pulumi:pulumi:Stack", "urn": "urn:pulumi:s::flexserve::pulumi:pulumi:Stack::flexserve-s"}
STASH = {"urn": f"{URN}kept", "type": "pulumi:index:Stash", "outputs": {"input": KEPT.as_state(), "output": {}}}
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:abc"}


def export(*resources: object) -> dict[str, object]:
    return {"version": 3, "deployment": {"manifest": {}, "resources": [*resources]}}


def test_outputs_and_what_is_kept():
    told = from_export(export({**STACK, "outputs": {"id": "x1", "access": {"ports": [1, 2]}}}, STASH))
    assert told.outputs == {"id": "x1", "access": {"ports": [1, 2]}} and from_state(told.kept) == KEPT


def test_a_first_up_that_failed_left_no_outputs_and_still_tells_the_id():
    told = from_export(export(STACK, STASH))
    assert (told.outputs, told.kept["id"], told.entries) == ({}, "x1", 2)


@pytest.mark.parametrize(
    "resources",
    [
        [],
        [STACK],
        [STACK, {**STASH, "delete": True}],
        [STACK, {**STASH, "urn": f"{URN}other"}],
        ["what"],
        [{**STASH, "outputs": None}],
    ],
)
def test_where_nothing_is_kept_or_only_waits_to_be_deleted(resources):
    assert from_export(export(*resources)) == ({}, {}, len(resources))


def test_of_two_the_one_that_stays_counts():
    old = {**STASH, "delete": True, "outputs": {"input": Kept("old", 1).as_state()}}
    assert from_export(export(old, STASH)).kept["id"] == from_export(export(STASH, old)).kept["id"] == "x1"


@pytest.mark.parametrize("document", [None, {}, [], {"deployment": None}, {"deployment": {}}, {"deployment": {"resources": None}}])
def test_a_stack_without_resources(document):
    assert from_export(document) == ({}, {}, 0)


def test_what_was_begun_is_an_entry():
    assert from_export({"deployment": {"resources": None, "pending_operations": [{"type": "creating"}]}}).entries == 1


def test_a_secret_is_not_shown_wherever_it_is():
    outputs = {"a": SECRET, "b": {"c": [SECRET, 1]}}
    assert from_export(export({**STACK, "outputs": outputs})).outputs == {"a": "[secret]", "b": {"c": ["[secret]", 1]}}
