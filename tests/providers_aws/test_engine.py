"""A small program through the real engine and language host: a machine late, up, a machine taken, destroy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.cloud.aws.pace import Pace
from rehearsal.providers.aws import aws_provider
from tests.providers.engine import Engine
from tests.providers_aws.account import Account

PROGRAM = Path(__file__).parent / "stack.py"
STACK = "g5g"
VM = "aws:ec2/instance:Instance"


def well(done: subprocess.CompletedProcess[str]) -> str:
    """What it said, when it ended well."""
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def engine(owner: Account, tmp_path: Path) -> Iterator[Engine]:
    with aws_provider(owner.sleep) as port:
        made = Engine(tmp_path, PROGRAM, port, "aws")
        made.configure(STACK, configuration(owner))
        yield made


def configuration(owner: Account) -> dict[str, str]:
    return {**owner.cloud.stack_config(), "fleet:ami": owner.image(), "fleet:script": "echo 1\n"}


def kinds(engine: Engine) -> list[str]:
    return [resource["type"] for resource in engine.resources(STACK) if resource["type"].startswith("aws:")]


def test_a_stack(owner: Account, engine: Engine) -> None:
    late = _comes_up_too_late(owner, engine)
    owner.cloud.clock.sleep(3600)
    said = well(engine.command(STACK, "up --refresh"))
    assert "vm updated" in said and "vm created" not in said
    assert "[diff: ~rootBlockDevice]" in said  # its tags, which come after the wait
    assert "+ 2 created\n    ~ 1 updated\n    3 changes. 14 unchanged" in said  # schedule and association name it
    assert len(kinds(engine)) == 16
    volumes = owner.cloud.call("ec2", "DescribeVolumes", Filters=[{"Name": "attachment.instance-id", "Values": [late]}])["Volumes"]
    assert {"Key": "flexserve-id", "Value": "k3x9q2"} in volumes[0]["Tags"]
    assert owner.cloud.instances()[late] == "running"

    owner.cloud.call("ec2", "TerminateInstances", InstanceIds=[late])
    owner.cloud.clock.sleep(60)
    said = well(engine.command(STACK, "destroy --refresh"))
    assert "- 16 deleted" in said and "vm deleting" not in said  # the stack and 15: the refresh saw that the machine was taken
    assert "[diff: " not in said  # and nothing else that has changed
    assert kinds(engine) == []
    assert list(owner.cloud.ledger.left()) == []
    assert owner.cloud.call("iam", "ListRoles")["Roles"] == []
    assert owner.cloud.call("s3", "ListBuckets")["Buckets"] == []


def _comes_up_too_late(owner: Account, engine: Engine) -> str:
    """The create timeout passes: the engine keeps the instance, as one that is not initialised. Its id."""
    owner.cloud.state.pace = Pace(pending=3600.0)
    done = engine.command(STACK, "up")
    assert done.returncode != 0
    assert "timeout while waiting for state to become 'running' (last state: 'pending', timeout: 10m0s)" in done.stdout
    kept = next(resource for resource in engine.resources(STACK) if resource["type"] == VM)
    assert kept["initErrors"]
    assert kept["outputs"]["instanceState"] == "pending"
    return str(kept["id"])
