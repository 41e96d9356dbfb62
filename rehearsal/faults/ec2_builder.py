"""What can go wrong with the machine that makes the build of a spot stack. Each begins without a build."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rehearsal.contracts import Fault
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from rehearsal.stage import HasMachines
    from rehearsal.targets.ec2_spot import Ec2SpotStage

TARGET = ("ec2_spot",)
LONG_S, LIFE_S = 60.0, 300.0
WHEEL_S = 3.0  # held by a builder that comes after one that was taken back


def _no_capacity(stage: Ec2SpotStage) -> None:
    from rehearsal.cloud.aws import troubles

    stage.aws.arm(troubles.no_capacity())


def _closed_bucket(stage: Ec2SpotStage) -> None:
    from rehearsal.cloud.aws import troubles

    stage.aws.arm(troubles.closed("PutObject", "builds/"))


def _builder_reclaimed(stage: Ec2SpotStage) -> None:
    """EC2's notice when the builder compiles, which takes long enough to be noticed in."""
    stage.behaviour.holds["wheel"] = LONG_S
    threading.Thread(target=_reclaim_in, args=(stage, "wheel"), name="reclaims the builder", daemon=True).start()


def _reclaim_in(stage: Ec2SpotStage, phase: str) -> None:
    """Once, in the first machine that comes to the phase."""
    last = time.monotonic() + LIFE_S
    while time.monotonic() < last:
        for name, machine in stage.aws.machines().items():
            if f"phase {phase} starts" in machine.log():
                stage.aws.reclaim(name)
                while name in stage.aws.machines() and time.monotonic() < last:
                    time.sleep(0.3)  # it may still be on its way to compiling: its hold is the long one
                stage.behaviour.holds["wheel"] = WHEEL_S
                return
        time.sleep(0.3)


def _switched(**switches: str) -> Callable[[HasMachines], None]:
    def apply(stage: HasMachines) -> None:
        for name, value in switches.items():
            setattr(stage.behaviour.faults, name, value)

    return apply


FAULTS = (
    Fault(
        "builder-fails",
        TARGET,
        "vLLM does not compile; the builder says why and is gone",
        _switched(compiler="error"),
        ExitCode.FAILED,
        "wheel",
        build=True,
    ),
    Fault(
        "builder-reclaimed",
        TARGET,
        "EC2 takes the builder back while it compiles",
        _builder_reclaimed,
        ExitCode.GONE,
        "taken back",
        build=True,
    ),
    Fault(
        "builder-power-cut",
        TARGET,
        "the builder loses power while it compiles, comes back and goes on",
        _switched(power_cut_in="wheel"),
        ExitCode.DONE,
        build=True,
    ),
    Fault(
        "builder-wrong-commit",
        TARGET,
        "vLLM's repository gives another commit than the stack file names",
        _switched(source="other-commit"),
        ExitCode.FAILED,
        "source",
        build=True,
    ),
    Fault(
        "builder-old-torch",
        TARGET,
        "the host image's torch has no code for the card; refused before anything is compiled",
        _switched(torch="no-sm75"),
        ExitCode.FAILED,
        "checks",
        build=True,
    ),
    Fault(
        "builder-bucket-closed",
        TARGET,
        "the bucket takes nothing from the builder; refused before anything is compiled",
        _closed_bucket,
        ExitCode.FAILED,
        "checks",
        build=True,
    ),
    Fault(
        "builder-no-capacity",
        TARGET,
        "no zone has spot capacity for the builder",
        _no_capacity,
        ExitCode.NO_CAPACITY,
        build=True,
    ),
)
