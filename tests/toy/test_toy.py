"""A target is added by a folder, a template, a stack file and catalog rows: no file of the product knows this one."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

import infra.targets
import templates
from catalog import rows
from catalog.loader import Catalog, read
from infra.deployment import from_stack_file
from infra.kept import from_state
from infra.program import read as read_state
from infra.settle import Circumstances, settle
from infra.targets import registry
from infra.targets.protocol import DeploymentRef, Failure, LiveTarget
from startup.render import render
from tests.contracts.live_target import LiveTargetContract, Scene
from tests.infra.mocked import registered
from verdict.errors import BadConfig, Refused

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PINS = {"image": "sha256:" + "a" * 64, "model": "b" * 40}


@pytest.fixture(autouse=True)
def added(monkeypatch):
    """The only two places that a target is looked for."""
    monkeypatch.setattr(infra.targets, "__path__", [*infra.targets.__path__, str(HERE / "targets")])
    monkeypatch.setattr(templates, "__path__", [*templates.__path__, str(HERE / "templates")])


@pytest.fixture
def catalog():
    text, shipped = (HERE / "catalog.toml").read_text(encoding="utf-8"), Catalog.load()
    machines = read("machine_types", "machine_type", rows.MachineType, text)
    ways = read("provisioning", "provisioning", rows.Provisioning, text)
    return dataclasses.replace(
        shipped,
        machine_types={**shipped.machine_types, **{m.name: m for m in machines}},
        provisionings={**shipped.provisionings, **{w.name: w for w in ways}},
        zones=(*shipped.zones, *read("zones", "zone", rows.Zone, text)),
    )


@pytest.fixture
def settled(catalog):
    def make(*sets, kept=None, **circumstances):
        at = {"live": False, "consent": False, "now": 0, "new_id": "0123456789", "login": "me", **circumstances}
        deployment = from_stack_file(HERE, "toy", sets)
        return settle(deployment, catalog, kept, Circumstances(**at), lambda key, _: PINS[key])

    return make


def test_it_is_found_planned_and_rendered(settled):
    assert registry.kinds() == ("gce_flex", "toy")
    boot = render(settled().plan.boot)
    assert (
        boot.script == f"#!/bin/sh\necho google/gemma-4-E2B-it vllm/vllm-tpu@{PINS['image']}\n# flexserve: end of script\n".encode()
    )


def test_its_rules_and_its_keys_are_checked_like_everybodys(settled):
    with pytest.raises(Refused, match="window-bounds"):
        settled("window=2h")
    with pytest.raises(BadConfig, match=r"flexserve:target\.romos: no such key; did you mean rooms\?"):
        settled("target.romos=[x]")


def test_its_kept_room_survives_a_changed_stack_file(settled):
    first = settled()
    later = settled("target.rooms=[south-room]", kept=first.kept, live=True)
    assert later.plan.deployment.target.places == ("north-room",) and len(later.words) == 1


def test_it_registers_through_the_same_program(settled):
    first = settled()
    component = registry.module("toy", "component")
    got, outputs = registered(lambda: component.Stack("serve", first.plan, first.kept, render(first.plan.boot)))
    (machine,) = [r for r in got if r.typ == "toy:index:Machine"]
    assert machine.name == "serve" and outputs["room"] == "north-room"
    assert outputs["id"] == first.kept.id == from_state(first.kept.as_state()).id
    assert read_state({"urn:x": {"type": "toy:index:Machine", "outputs": {}}}).live is True


class ToyScene(Scene):
    def __init__(self, name: str) -> None:
        self.live: LiveTarget = registry.live("toy", {"folder": name})
        self.cloud = registry.module("toy", "live").CLOUDS[name]
        self.ref = DeploymentRef(stack="toy", id="0123456789")

    def create(self) -> None:
        toy = {"name": "toy", "room": "north-room", "born": self.cloud["now"], "said": {}, "console": ""}
        self.cloud["machines"][self.ref.id] = toy

    def report(self, key: str, document: str) -> None:
        self.cloud["machines"][self.ref.id]["said"][key] = document

    def speak(self, text: str) -> None:
        self.cloud["machines"][self.ref.id]["console"] += text

    def end(self) -> None:
        self.cloud["now"] += 3600

    def fail(self) -> str:
        self.cloud["failed"][self.ref.id] = Failure("FULL", "the room is full", "north-room")
        return "north-room"

    def money_words(self) -> str:
        return "sorry, the room is full"


class TestToy(LiveTargetContract):
    @pytest.fixture
    def scene(self, request) -> Scene:
        return ToyScene(request.node.name)


def test_no_file_of_the_product_names_it():
    product = ["catalog", "infra", "startup", "templates", "flexserve", "verdict", "stacks", "rehearsal", "Pulumi.yaml"]
    found = subprocess.run(["git", "grep", "-lwi", "toy", "--", *product], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == ""
