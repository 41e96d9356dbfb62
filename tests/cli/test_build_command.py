"""The real `flexserve build` against the local AWS, whose machines never speak: what Ctrl-C and a kill leave.

That `up` makes nothing without a build is of `rehearsal/test_life_builder`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flexserve import cli
from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.project import private_copy
from rehearsal.run import pulumi_environment
from tests.conftest import COMMIT

pytestmark = [
    pytest.mark.skipif(shutil.which("pulumi") is None, reason="pulumi is not on PATH; `make setup` puts it there"),
    pytest.mark.timeout(600),
]
STACK = "g5g-spot"
BEGUN = "the builder of g5g-spot is created in us-east-1a"


@dataclass
class Here:
    cloud: LocalAwsCloud
    project: Path
    environment: dict[str, str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "flexserve", *words]
        return subprocess.Popen(
            argv, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begun(self) -> subprocess.Popen[str]:
        """A build that watches its machine."""
        process = self.start("build", "-s", STACK, "--yes", "--json")
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if BEGUN in line:
                return process
        raise AssertionError("".join(said))

    def machines(self) -> list[str]:
        return [name for name, state in self.cloud.instances().items() if state in ("pending", "running")]

    def bills(self) -> list[str]:
        return [item.name for item in self.cloud.ledger.left()]


@pytest.fixture(scope="module")
def here(tmp_path_factory, root) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("build")
    with LocalAwsCloud(pace=Pace(iam=0)) as cloud:
        sets = (f"target.build.commit={COMMIT}", "owner=me")
        project = private_copy(root, folder, STACK, cloud.stack_config(), sets)
        environment = {**os.environ, **pulumi_environment(folder), **cloud.environment(), "PYTHONPATH": str(root)}
        yield Here(cloud, project, environment)


@pytest.fixture
def inside(here, monkeypatch, capsys):
    """A command in this process, where it is nobody's to stop: starting another costs a second."""
    for name, value in here.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(here.project)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def run(*words):
        code = cli.main((*words, "-s", STACK, "--json"))
        said = capsys.readouterr()
        return code, json.loads(said.out), said.err

    return run


def test_ctrl_c_ends_the_builder_and_nothing_bills(here):
    process = here.begun()
    assert here.bills()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the builder is gone" in json.loads(out)["error"]["what"] and here.bills() == []
    assert not [name for name in here.cloud.state.moto.backend("s3").buckets if name.startswith("fs-")]


def test_a_killed_build_is_watched_by_the_next_and_ended_by_down(here, inside):
    process = here.begun()
    process.kill()
    process.communicate(timeout=60)
    (before,) = here.machines()
    code, document, err = inside("status")
    builder = document["build"]["builder"]
    assert (code, document["state"], document["build"]["kept"]) == (0, "absent", None), err
    assert builder["where"] == "us-east-1a" and builder["since"] and builder["key"] == document["build"]["key"]
    assert builder["cost_so_far"] is not None and 1.3 < builder["price_per_hour_at_most"] < 1.4
    second = here.start("build", "-s", STACK, "--yes")
    assert second.stderr is not None
    assert "is at work already; watches it to its end" in second.stderr.readline()
    second.kill()
    second.communicate(timeout=60)
    assert here.machines() == [before]
    code, document, err = inside("down", "--yes")
    assert code == 0 and before in {thing.get("name") for thing in document["deleted"]}, err
    assert here.bills() == [] and not (here.project / ".flexserve/builder/g5g-spot.json").exists()


def test_it_asks_first_and_there_is_nobody_to_ask(here, inside):
    code, document, _ = inside("build")
    assert code == 2 and document["error"]["way_out"] == "add --yes" and here.bills() == []


def test_plan_says_what_it_takes(inside):
    code, document, _ = inside("plan")
    builder = document["build"]["builder"]
    assert code == 0 and (builder["machine_type"], builder["minutes"], builder["usd"]) == ("m7g.8xlarge", 27, None)
    assert builder["usd_at_most"] == 0.59 and builder["unknown"] == ["m7g.8xlarge, spot"]
