"""What is shown and counted of the engine's own events."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.automation.events import EngineEvent

from flexserve.lifecycle.events import Events

URN = "urn:pulumi:s::flexserve::aws:ecr/repository:Repository::"


def step(kind: str, name: str, op: str = "delete", *, stays: bool = False, planning: bool = False) -> EngineEvent:
    """The engine's word that it begins (`resourcePreEvent`) or ends a step."""
    old = {"type": "aws:ecr/repository:Repository", "urn": URN + name, **({"retainOnDelete": True} if stays else {})}
    metadata = {"op": op, "urn": URN + name, "type": "aws:ecr/repository:Repository", "provider": "", "old": old}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, kind: {"metadata": metadata, "planning": planning}})


def summary(**counts: int) -> EngineEvent:
    told: dict[str, Any] = {"maybeCorrupt": False, "durationSeconds": 1, "resourceChanges": counts, "policyPacks": {}}
    return EngineEvent.from_json({"sequence": 2, "timestamp": 2, "summaryEvent": told})


@pytest.mark.parametrize(
    ("stays", "planning", "said", "words"),
    [
        (True, False, "leaving ecr/repository images in the cloud", "2 deleted, 1 left in the cloud"),
        (True, True, "would leave ecr/repository images in the cloud", "2 deleted, 1 left in the cloud"),
        (False, False, "deleting ecr/repository images", "3 deleted"),
        (False, True, "would delete ecr/repository images", "3 deleted"),
    ],
)
def test_what_the_engine_only_forgets_is_not_called_deleted(stays, planning, said, words):
    shown: list[str] = []
    events = Events(shown.append)
    events(step("resourcePreEvent", "images", stays=stays, planning=planning))
    events(step("resOutputsEvent", "images", stays=stays, planning=planning))
    events(summary(delete=3, same=1))
    assert shown == [said] and events.changes.words == words and events.changes.total == 3


def test_what_replaces_something_that_stays_is_no_delete_of_the_count():
    shown: list[str] = []
    events = Events(shown.append)
    events(step("resourcePreEvent", "images", "delete-replaced", stays=True))
    events(summary(replace=1, delete=1))
    assert shown == ["leaving ecr/repository images in the cloud"] and events.changes.counts == {"replace": 1, "delete": 1}
