"""The contract of `LiveTarget`, run on every target: inherit, and give a `scene`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime

import pytest

from flexserve.lifecycle.classify import SLACK
from infra.targets.protocol import Billable, DeploymentRef, LiveTarget
from verdict.errors import FlexserveError


class Scene(ABC):
    """One target with one deployment in its cloud, and how to make things happen there."""

    live: LiveTarget
    ref: DeploymentRef
    foreign = DeploymentRef(stack="tpu-v6e", id="ffffffffff")  # the same stack's name, another id

    @abstractmethod
    def create(self) -> None:
        """Make the deployment's machine and what goes with it."""

    @abstractmethod
    def report(self, key: str, document: str) -> None:
        """The machine reports one boot document."""

    @abstractmethod
    def speak(self, text: str) -> None:
        """The machine writes to its console."""

    @abstractmethod
    def end(self) -> None:
        """The window closes."""

    @abstractmethod
    def fail(self) -> str:
        """A create of the deployment fails for want of capacity; the place."""

    @abstractmethod
    def money_words(self) -> str:
        """The cloud's own words for a stock-out."""


class LiveTargetContract:
    """What every target promises."""

    @pytest.fixture
    def scene(self) -> Scene:
        raise NotImplementedError

    def test_nothing_is_there_before_the_create(self, scene: Scene) -> None:
        assert scene.live.find(scene.ref) is None and scene.live.boot(scene.ref) is None
        assert scene.live.log(scene.ref, since=7) == ("", 7)
        assert list(scene.live.inventory(scene.ref)) == [] and scene.live.last_failure(scene.ref) is None

    def test_the_machine_is_found_by_its_id_and_a_colleagues_is_not(self, scene: Scene) -> None:
        scene.create()
        machine = scene.live.find(scene.ref)
        assert machine is not None and scene.ref.id in (machine.name, *machine.labels.values(), machine.name.split("-")[-1])
        assert machine.created_at is not None and machine.expires_at is not None
        assert machine.created_at.tzinfo is not None and machine.created_at < machine.expires_at
        assert scene.live.find(scene.foreign) is None and list(scene.live.inventory(scene.foreign)) == []

    def test_the_clouds_time_is_utc_and_moves_with_the_cloud(self, scene: Scene) -> None:
        scene.create()
        before = scene.live.now()
        machine = scene.live.find(scene.ref)
        assert before.tzinfo == UTC and isinstance(before, datetime) and machine is not None and machine.expires_at is not None
        scene.end()
        scene.live.find(scene.ref)
        assert scene.live.now() >= machine.expires_at

    def test_a_boot_is_unknown_until_it_reports(self, scene: Scene) -> None:
        scene.create()
        assert scene.live.boot(scene.ref) is None
        scene.report("state", json.dumps({"state": "booting", "script": "5" * 64, "phase": "image"}))
        scene.report("phase-image", json.dumps({"name": "image", "start_s": 1.5, "result": "running"}))
        status = scene.live.boot(scene.ref)
        assert status is not None and (status.state, status.phase) == ("booting", "image")
        assert [(p.name, p.result) for p in status.phases] == [("image", "running")]

    def test_the_log_continues_from_an_offset(self, scene: Scene) -> None:
        scene.create()
        scene.speak("first line\n")
        text, offset = scene.live.log(scene.ref)
        assert "first line" in text and offset > 0
        assert scene.live.log(scene.ref, since=offset) == ("", offset)
        scene.speak("second line\n")
        text, later = scene.live.log(scene.ref, since=offset)
        assert "second line" in text and "first line" not in text and later > offset

    def test_inventory_lists_all_and_delete_empties_it_in_that_order(self, scene: Scene) -> None:
        scene.create()
        things = list(scene.live.inventory(scene.ref))
        assert things and len(set(things)) == len(things)
        for thing in things:
            scene.live.delete(thing)
            scene.live.delete(thing)  # already gone is success
        assert list(scene.live.inventory(scene.ref)) == []

    def test_deleting_what_never_was_is_success(self, scene: Scene) -> None:
        scene.create()
        first = next(iter(scene.live.inventory(scene.ref)))
        scene.live.delete(Billable(first.kind, f"{first.name}x", first.where))

    def test_after_the_window_the_machine_is_gone_and_nothing_of_it_costs_money(self, scene: Scene) -> None:
        scene.create()
        scene.end()
        assert scene.live.find(scene.ref) is None and scene.live.boot(scene.ref) is None

    def test_a_failed_create_is_told_from_the_clouds_record(self, scene: Scene) -> None:
        before = scene.live.now()
        where = scene.fail()
        failure = scene.live.last_failure(scene.ref)
        assert failure is not None and failure.where == where
        assert failure.at is not None and before - SLACK <= failure.at <= scene.live.now() + SLACK
        error = scene.live.explain(failure.message, failure.code)
        assert error is not None and error.kind == "no-capacity"

    def test_a_create_that_worked_after_one_that_failed_is_no_failure(self, scene: Scene) -> None:
        scene.fail()
        scene.create()
        assert scene.live.last_failure(scene.ref) is None

    def test_words_are_explained_without_a_call_and_unknown_ones_are_not(self, scene: Scene) -> None:
        error = scene.live.explain(scene.money_words())
        assert isinstance(error, FlexserveError) and error.kind == "no-capacity" and error.way_out
        assert scene.live.explain("the moon is full") is None
