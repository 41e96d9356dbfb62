"""A target is added by a folder, a template, a stack file and catalog rows: no file of the product knows this one."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from msgspec import structs

import infra.targets
import templates
from catalog import rows
from catalog.loader import Catalog, read
from infra.deployment import from_stack_file
from infra.kept import from_state
from infra.program import read as read_state
from infra.settle import Circumstances, settle
from infra.targets import registry
from infra.targets.protocol import DeploymentRef, LiveTarget
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
    monkeypatch.setattr(infra.targets, "__path__", [*infra.targets.__path__, str(HERE / "infra" / "targets")])
    monkeypatch.setattr(templates, "__path__", [*templates.__path__, str(HERE / "templates")])


@pytest.fixture
def catalog():
    shipped = Catalog.load()
    text = {path.stem: path.read_text(encoding="utf-8") for path in (HERE / "catalog").iterdir()}
    machines = read("machine_types", "machine_type", rows.MachineType, text["machine_types"])
    ways = read("provisioning", "provisioning", rows.Provisioning, text["provisioning"])
    return structs.replace(
        shipped,
        machine_types={**shipped.machine_types, **{m.name: m for m in machines}},
        provisionings={**shipped.provisionings, **{w.name: w for w in ways}},
        zones=(*shipped.zones, *read("zones", "zone", rows.Zone, text["zones"])),
    )


@pytest.fixture
def settled(catalog):
    def make(*sets, kept=None, **circumstances):
        at = {"live": False, "consent": False, "now": lambda: 0, "new_id": "0123456789", "login": "me", **circumstances}
        deployment = from_stack_file(HERE, "toy", sets)
        return settle(deployment, catalog, kept, Circumstances(**at), lambda key, _: PINS[key])

    return make


def test_it_is_found_planned_and_rendered(settled):
    assert "toy" in registry.kinds()
    boot = render(settled().plan.boot)
    said, options, end = boot.script.decode().splitlines()[1:]
    assert said == f"echo google/gemma-4-E2B-it vllm/vllm-tpu@{PINS['image']}" and end == "# flexserve: end of script"
    assert options.startswith(": '--served-model-name google/gemma-4-E2B-it ")


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
    boot = render(first.plan.boot)
    got, outputs = registered(lambda: component.Stack("serve", first.plan, first.kept, boot), {"born": 0.0})
    (machine,) = [r for r in got if r.typ == "toy:index:Machine"]
    assert machine.name == "machine" and outputs["zone"] == "north-room" and outputs["access"]["kind"] == "iap"
    assert outputs["id"] == first.kept.id == from_state(first.kept.as_state()).id
    assert read_state({"urn:x": {"type": "toy:index:Machine", "outputs": {}}}, "toy").live is True


def test_the_outputs_of_the_recipe_are_those_that_it_exports_and_that_the_command_line_reads(settled):
    page = (ROOT / "docs" / "contributors" / "add-a-target.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`[^|]+) \|", page.partition("## Outputs")[2], re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    first = settled()
    resources = registry.module("toy", "resources")
    assert named == {*resources.outputs(first.plan, first.kept, render(first.plan.boot)), "expires_at"}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "flexserve").rglob("*.py")]
    read_there = {name for text in sources for name in re.findall(r"""outputs\.get\("(\w+)""", text)}
    some = {"service_account", "build", "prices", "price_per_hour_most", "owner"}  # what not every target has
    assert read_there - some <= named and all(f"`{name}`" in page for name in some)


class ToyScene(Scene):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live: LiveTarget = registry.live("toy", {"folder": folder})
        self.ref = DeploymentRef(stack="toy", id="0123456789")

    @property
    def path(self) -> Path:
        return self.folder / f"machine-{self.ref.id}.json"

    def change(self, **values: object) -> None:
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), **values}))

    def create(self) -> None:
        toy = {"name": "toy", "room": "north-room", "born": time.time(), "said": {}, "console": ""}
        self.path.write_text(json.dumps(toy))

    def report(self, key: str, document: str) -> None:
        self.change(said={**json.loads(self.path.read_text())["said"], key: document})

    def speak(self, text: str) -> None:
        self.change(console=json.loads(self.path.read_text())["console"] + text)

    def end(self) -> None:
        (self.folder / "turned").write_text('{"by": 3600}')

    def fail(self) -> str:
        failure = {"code": "FULL", "message": "the room is full", "where": "north-room"}
        (self.folder / f"failed-{self.ref.id}.json").write_text(json.dumps(failure))
        return "north-room"

    def money_words(self) -> str:
        return "sorry, the room is full"


class TestToy(LiveTargetContract):
    @pytest.fixture
    def scene(self, tmp_path) -> Scene:
        return ToyScene(tmp_path)


def test_no_file_of_the_product_names_it():
    product = ["catalog", "infra", "startup", "templates", "flexserve", "verdict", "stacks", "rehearsal", "Pulumi.yaml"]
    found = subprocess.run(["git", "grep", "-lwi", "toy", "--", *product], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == ""
