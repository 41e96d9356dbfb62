"""A boot that failed, and what an operator does then: mend it outside, `up` again, on the same machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rehearsal.faults import FAULTS
from rehearsal.run import Rehearsal
from rehearsal.targets.gce_flex import GceFlexStage

pytestmark = [pytest.mark.usefixtures("bootable"), pytest.mark.timeout(600)]


def test_a_throttled_pull_ends_soon_and_up_goes_on_when_it_is_over(root: Path) -> None:
    fault = FAULTS["registry-throttled"]
    sets = ("image.throttled_wait=3s",)
    with Rehearsal(root, "tpu-v6e", sets=sets, faults=[fault], say=lambda line: print(line, file=sys.stderr)) as rehearsal:
        stage = rehearsal.stage
        assert isinstance(stage, GceFlexStage)
        failed = rehearsal.step("up", "--yes")
        assert failed.returncode == fault.expect_exit
        error = failed.document["error"]
        assert (error["phase"], error["cause"].partition(":")[0]) == (fault.expect_text, "image-pull-limit")
        assert "image.throttled_wait" in error["cause"] and "toomanyrequests" in error["log_tail"]
        before = stage.google.machines()

        stage.behaviour.faults.registry = ""
        again = rehearsal.step("up", "--yes")
        assert again.returncode == 0, again.stderr[-2000:]
        assert stage.google.machines() == before
        results = {phase["name"]: phase["result"] for phase in again.document["phases"]}
        assert results == {**dict.fromkeys(results, "done"), "packages": "skipped", "docker": "skipped"} | {
            name: "skipped" for name in ("token", "weights") if results[name] == "skipped"
        }
        (machine,) = before.values()
        assert len(machine.exec(["docker", "ps", "-aq"]).stdout.split()) == 1
        assert {"docker.io", "containerd", "runc"} <= set(machine.exec(["apt-mark", "showhold"]).stdout.split())
        journal = machine.exec(["journalctl", "--boot", "--output=cat"]).stdout
        assert 0 < journal.index("Starting docker.service") < journal.index("target.wants/docker.socket")  # before dpkg was through
        preview = rehearsal.product.pulumi("preview", "-s", "tpu-v6e", "--expect-no-changes")
        assert preview.returncode == 0, preview.stdout[-2000:]
        assert rehearsal.step("down", "--yes").returncode == 0
    assert rehearsal.verdict.left == []
