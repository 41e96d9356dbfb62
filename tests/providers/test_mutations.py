"""The net holds: take away any one field that was sent, and the comparison sees it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.providers.google.resources.instance_body import insert_body
from tests.providers import recordings, requests
from tests.providers.conftest import bare
from tests.providers.deviations import rows, unexplained

INSERT = "/zones/us-central1-b/instances"


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a body: fields and list elements, outer and inner."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield (*path, key)
        yield from places(item, (*path, key))


def without(body: Any, path: tuple[str | int, ...]) -> Any:
    """A copy that lacks this place."""
    body = copy.deepcopy(body)
    at = body
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return body


def bodies() -> list[dict[str, Any]]:
    """One request of every different body."""
    unique = {
        (e["method"], e["path"], json.dumps(e["body"], sort_keys=True)): e for e in recordings.raw_requests() if e.get("body")
    }
    return list(unique.values())


@pytest.mark.parametrize("step", sorted({entry["step"] for entry in bodies()}))
def test_any_field_that_is_missing_is_seen(step: str) -> None:
    recorded = recordings.requests_of(step)
    known = rows()
    checked = 0
    for entry in (entry for entry in bodies() if entry["step"] == step):
        whole = requests.normal(entry["method"], entry["path"], entry["query"], entry["body"])
        for path in places(entry["body"]):
            less = requests.normal(entry["method"], entry["path"], entry["query"], without(entry["body"], path))
            ours = [less if request == whole else request for request in recorded]
            assert unexplained(requests.compare(recorded, ours), known), f"{whole.what} without {path}"
            checked += 1
    assert checked


@pytest.mark.parametrize("step", ["01-up-all", "03-refresh", "37-zone-replace"])
def test_any_request_that_is_missing_or_too_much_is_seen(step: str) -> None:
    recorded = recordings.requests_of(step)
    for index in range(len(recorded)):
        assert requests.compare(recorded, recorded[:index] + recorded[index + 1 :])
    assert requests.compare(recorded, [*recorded, requests.normal("DELETE", "/compute/beta/x", "alt=json", None)])


def inserted() -> tuple[Any, Any]:
    """The recorded body of an insert, and the builder's for the recorded inputs."""
    recorded = next(e["body"] for e in recordings.raw_requests() if e["step"] == "11-exhausted-op" and e["path"].endswith(INSERT))
    inputs = {key: value for key, value in recordings.instance()["inputs"].items() if key != "__defaults"}
    labels = {**inputs["labels"], "goog-pulumi-provisioned": "true"}
    defaults = {key: inputs[key] for key in ("canIpForward", "deletionProtection")}
    wanted = bare(recordings.instance()["inputs"]) | defaults | {"bootDisk": inputs["bootDisk"], "effectiveLabels": labels}
    return recorded, insert_body("demo", "us-central1-b", wanted | {"scheduling": inputs["scheduling"]})


def test_the_builder_makes_the_recorded_insert() -> None:
    recorded, ours = inserted()
    assert ours == recorded


def test_any_field_the_builder_lost_would_be_seen() -> None:
    recorded, ours = inserted()
    one = requests.normal("POST", INSERT, "alt=json", recorded)
    for path in places(ours):
        other = requests.normal("POST", INSERT, "alt=json", without(ours, path))
        assert requests.compare([one], [other]), path
