"""`up` with an image on a target that runs none: the image itself is read, and what is wrong with it is said first."""

from __future__ import annotations

import pytest

from flexserve.project import Project
from infra.clouds import image_config
from infra.image_facts import ImageFacts
from infra.state import State
from tests.cli.conftest import document
from tests.conftest import COMMIT


@pytest.fixture
def spot(root, project, monkeypatch):
    """The spot stack's file, filled in and with an image."""
    text = (root / "stacks" / "Pulumi.g5g-spot.yaml").read_text(encoding="utf-8")
    text = text.replace("your-builds-bucket", "acme-builds").replace("your-vllm-commit", COMMIT)
    text += "  flexserve:image:\n    name: acme/vllm:arm64-sm75\n"
    (project / "stacks" / "Pulumi.g5g-spot.yaml").write_text(text, encoding="utf-8")
    return project


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (ImageFacts("sha256:1", ("amd64",), "13.0", ("7.5",)), "image-processor"),
        (ImageFacts("sha256:1", ("arm64",), "13.0", ("8.0", "9.0")), "image-without-card"),
        (ImageFacts("sha256:1", ("arm64",), "13.0", ("7.5",)), "image-not-run"),
    ],
)
def test_up_reads_the_image_and_refuses_it_by_what_it_is(spot, flexserve, monkeypatch, facts, rule):
    asked = []

    def read(repository: str, reference: str, processor: str) -> ImageFacts:
        asked.append((repository, reference, processor))
        return facts

    monkeypatch.setattr(image_config, "read", read)
    code, out, _ = flexserve("up", "-s", "g5g-spot", "--yes", "--json")
    assert (code, document(out)["refused"]["rule"]) == (3, rule)
    assert asked == [("acme/vllm", "arm64-sm75", "arm64")]


def test_up_speaks_of_the_image_that_the_stack_keeps_though_its_tag_has_moved(spot, flexserve, monkeypatch):
    digest = "sha256:" + "a" * 64
    facts = ImageFacts(digest, ("amd64",), "13.0", ("7.5",))
    choices = {
        "image": {"asked": "acme/vllm:arm64-sm75", "value": digest},
        "image.config": {"asked": digest, "value": facts.text()},
    }
    monkeypatch.setattr(Project, "state", lambda *_: State({}, {"id": "k3j9x2", "started": 5, "choices": choices}, 2))
    monkeypatch.setattr(image_config, "read", None)
    code, out, _ = flexserve("up", "-s", "g5g-spot", "--yes", "--json")
    assert (code, document(out)["refused"]["rule"]) == (3, "image-processor")


def test_plan_asks_no_registry_and_refuses_all_the_same(spot, flexserve, monkeypatch):
    monkeypatch.setattr(image_config, "read", None)
    code, out, _ = flexserve("plan", "-s", "g5g-spot", "--json")
    assert (code, document(out)["refused"]["rule"]) == (3, "image-not-run")
