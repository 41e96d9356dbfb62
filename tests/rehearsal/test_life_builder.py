"""A builder that EC2 takes back while it compiles, for real: nothing of it stays, and the operator is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rehearsal.faults import FAULTS
from rehearsal.product import Ran
from rehearsal.run import Rehearsal
from rehearsal.targets.ec2_spot import Ec2SpotStage

pytestmark = [pytest.mark.usefixtures("bootable", "session_manager"), pytest.mark.timeout(900)]


@dataclass
class Life:
    """What was seen."""

    ran: dict[str, Ran] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    rehearsal: Rehearsal = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def life(root: Path) -> Iterator[Life]:
    seen = Life()
    faults = (FAULTS["builder-reclaimed"],)
    rehearsal = seen.rehearsal = Rehearsal(root, "g5g-spot", faults=faults, say=lambda line: print(line, file=sys.stderr))
    with rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, Ec2SpotStage)
        seen.ran["up"] = rehearsal.step("up", "--yes")
        seen.made = [item.kind for item in stage.cloud.ledger.items() if item.kind != "bucket" and item.kind != "secret"]
        seen.ran["build"] = rehearsal.step("build", "--yes")
        seen.left = [item.name for item in stage.cloud.ledger.left() if item.labels.get("flexserve-purpose")]
        named = (group["GroupName"] for group in stage.aws.call("ec2", "DescribeSecurityGroups")["SecurityGroups"])
        seen.groups = [name for name in named if name.startswith("fs-")]
        seen.ran["down"] = rehearsal.step("down", "--yes")
    yield seen


def test_up_without_a_build_makes_nothing_and_says_how_to_make_one(life):
    error = life.ran["up"].document["error"]
    assert life.ran["up"].returncode == 3 and error["kind"] == "no-build" and life.made == []
    assert "flexserve build -s g5g-spot makes it" in error["way_out"]


def test_a_builder_that_is_taken_back_ends_with_8_and_is_gone(life):
    ran = life.ran["build"]
    assert ran.returncode == 8, ran.stderr[-2000:]
    error = ran.document["error"]
    assert "taken back in phase wheel" in error["what"] and error["why"].startswith("reclaimed at ")
    assert "starts again" in error["way_out"]
    assert life.left == [] and life.groups == [] and not life.rehearsal.stage.build()


def test_down_has_nothing_left_to_do(life):
    assert life.ran["down"].returncode == 0 and life.rehearsal.verdict.exit_code == 0
    assert life.rehearsal.verdict.host_left == [] and life.rehearsal.stage.aws.own_errors() == ()
