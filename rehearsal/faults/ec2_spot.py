"""What AWS can do to a spot machine. `expect_exit` is the code with which the rehearsal must end.

Nothing of the local AWS is imported before a fault is armed: all faults are listed for every stack, and moto takes a second.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rehearsal.contracts import Fault
from rehearsal.long_request import LongRequest
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from rehearsal.cloud.aws import LocalAwsCloud
    from rehearsal.stage import HasMachines
    from rehearsal.targets.ec2_spot import Ec2SpotStage

TARGET = ("ec2_spot",)
SPOT_QUOTA = "L-3819A6DF"  # All G and VT Spot Instance Requests
WRONG_PROCESSOR, WITHOUT_DRIVER = "ami-0f5e1e5e000000003", "ami-0f5e1e5e000000004"
LATE_PROFILE_S = 8.0
NOTICED_S, OFF_S = 20.0, 60.0
MODEL = "google/gemma-4-E2B-it"
TAKEN = 'grep -q \'"state": *"reclaimed"\' /var/lib/flexserve/state'


def _arm(trouble: str, **how: bool) -> Callable[[Ec2SpotStage], None]:
    """By its name in `rehearsal.cloud.aws.troubles`."""

    def apply(stage: Ec2SpotStage) -> None:
        from rehearsal.cloud.aws import troubles

        stage.aws.arm(getattr(troubles, trouble)(**how))

    return apply


def _image(image_id: str) -> Callable[[Ec2SpotStage], None]:
    return lambda stage: stage.aws.rename_parameter(stage.config().host_image, image_id)


def _once_reached(act: Callable[[Ec2SpotStage, str], None]) -> Callable[[Ec2SpotStage], None]:
    """Do it when the operator's first question is on its way to the machine that serves."""
    return lambda stage: stage.on_reach.append(act)


def _first_zone_out(stage: Ec2SpotStage) -> None:
    from rehearsal.cloud.aws import troubles

    stage.aws.arm(troubles.no_capacity(stage.config().zones[0], foreseen=False))


def _no_zone(stage: Ec2SpotStage) -> None:
    for zone in stage.config().zones:
        stage.aws.take_family(zone, "g5g.")


def notice(stage: Ec2SpotStage, instance: str) -> LongRequest:
    """EC2's notice while a request runs; returns when the machine has seen it. The request may still run."""
    machine = stage.aws.machines()[instance]
    running = LongRequest(socket.socket(fileno=machine.connect(8000)), MODEL)
    running.begun.wait(NOTICED_S)
    stage.aws.reclaim(instance)
    _until(lambda: machine.exec(["sh", "-c", TAKEN]).returncode == 0, NOTICED_S)
    return running


def _reclaimed(stage: Ec2SpotStage, instance: str) -> None:
    running = notice(stage, instance)
    running.over.wait(OFF_S)
    if not running.finished:
        stage.aws.state.problems.append("a request that ran at the notice did not come to its end")


def _close_window(stage: Ec2SpotStage, instance: str) -> None:
    ends = _end(stage.aws)
    stage.aws.clock.advance(max(0.0, ends - stage.aws.clock.now()) + 1)
    _gone(stage, instance)


def _own_timer(stage: Ec2SpotStage, instance: str) -> None:
    """The schedule is lost; the machine's own timer is fired by hand at the window's end."""
    ends = _end(stage.aws)
    for name in stage.aws.schedules():
        stage.aws.call("scheduler", "DeleteSchedule", Name=name)
    stage.aws.clock.advance(max(0.0, ends - stage.aws.clock.now()) + 1)
    stage.aws.machines()[instance].exec(["systemctl", "start", "--no-block", "flexserve-deadline.service"])
    _gone(stage, instance)


def _end(aws: LocalAwsCloud) -> float:
    """When the one schedule fires, epoch seconds."""
    (ends,) = aws.schedules().values()
    assert ends is not None
    return ends


def _gone(stage: Ec2SpotStage, instance: str) -> None:
    _until(lambda: stage.aws.instances().get(instance, "terminated") == "terminated", OFF_S)


def _until(done: Callable[[], bool], seconds: float) -> None:
    """Wait for it, bounded: what did not happen shows in how the rehearsal ends."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        try:
            if done():
                return
        except (RuntimeError, TimeoutError):  # the machine went off while it was asked
            return
        time.sleep(0.3)


def _lost_build(stage: Ec2SpotStage) -> None:
    from rehearsal.cloud.aws import troubles

    stage.aws.arm(troubles.closed("GetObject", "builds/"))


def _no_build(stage: Ec2SpotStage) -> None:
    for key in stage.build():
        stage.aws.drop_object(stage.bucket, key)


def _damaged_build(stage: Ec2SpotStage) -> None:
    """The archive has its size and not its bytes."""
    for key in stage.build():
        if not key.endswith("manifest.json"):
            data = bytearray(stage.aws.stored(stage.bucket)[key])
            data[len(data) // 2] ^= 0xFF
            stage.aws.drop_object(stage.bucket, key)
            stage.aws.call("s3", "PutObject", Bucket=stage.bucket, Key=key, Body=bytes(data))


def _no_secret(stage: Ec2SpotStage) -> None:
    for name in stage.aws.secret_names():
        stage.aws.drop_secret(name)


def _empty_secret(stage: Ec2SpotStage) -> None:
    for name in stage.aws.secret_names():
        stage.aws.empty_secret(name)


def _planted_volume(stage: Ec2SpotStage) -> None:
    stage.aws.put_volume(stage.config().zones[0])


def _other_card(stage: HasMachines) -> None:
    stage.behaviour.faults.driver = "other-card"


def _power_cut(stage: HasMachines) -> None:
    stage.behaviour.faults.power_cut_in = "build"


FAULTS = (
    Fault(
        "spot-no-capacity",
        TARGET,
        "no zone has spot capacity; RunInstances is refused in each",
        _arm("no_capacity"),
        ExitCode.NO_CAPACITY,
        "none of the 3 places",
    ),
    Fault(
        "spot-first-zone-out",
        TARGET,
        "the first zone has no spot capacity, and the placement score does not know it; the second serves",
        _first_zone_out,
        ExitCode.DONE,
    ),
    Fault(
        "spot-out-everywhere",
        TARGET,
        "no zone has spot capacity, and the stack file allows the usual price: a machine at that price serves",
        _arm("no_capacity", spot_only=True, foreseen=False),
        ExitCode.DONE,
        sets=("target.on_demand=fall_back", "target.zones=[us-east-1a, us-east-1b]"),
    ),
    Fault(
        "zone-without-type",
        TARGET,
        "no zone offers the machine type",
        _no_zone,
        ExitCode.NO_CAPACITY,
        "none of the 3 places",
    ),
    Fault(
        "spot-quota",
        TARGET,
        "the quota of G and VT spot instances is 0",
        lambda stage: stage.aws.set_quota(SPOT_QUOTA, 0),
        ExitCode.NO_ACCESS,
    ),
    Fault(
        "price-too-low",
        TARGET,
        "spot costs more than the highest price that the stack file names",
        lambda stage: stage.aws.set_spot_price(stage.config().machine_type, 0.2),
        ExitCode.NO_CAPACITY,
        sets=("target.max_price_per_hour=0.15",),
    ),
    Fault(
        "wrong-image",
        TARGET,
        "the parameter of the host image names one for x86_64; refused before anything is made",
        _image(WRONG_PROCESSOR),
        ExitCode.USAGE,
        "is for x86_64",
    ),
    Fault(
        "image-without-driver",
        TARGET,
        "the parameter of the host image names one without NVIDIA's driver; refused before anything is made",
        _image(WITHOUT_DRIVER),
        ExitCode.USAGE,
        "no NVIDIA driver",
    ),
    Fault(
        "late-profile",
        TARGET,
        f"role and profile are known {LATE_PROFILE_S:.0f} s late; the provider and the boot ask again until they are",
        lambda stage: stage.aws.delay_iam(LATE_PROFILE_S),
        ExitCode.DONE,
    ),
    Fault(
        "spot-no-permission",
        TARGET,
        "the operator may not run instances",
        lambda stage: stage.aws.deny("ec2:RunInstances"),
        ExitCode.NO_ACCESS,
    ),
    Fault(
        "spot-reclaimed",
        TARGET,
        "EC2's notice comes while a request runs: the request ends in order, nobody new gets in",
        _once_reached(_reclaimed),
        ExitCode.GONE,
        "reclaimed",
    ),
    Fault(
        "spot-window-closes",
        TARGET,
        "the window closes when the machine serves: the schedule terminates it",
        _once_reached(_close_window),
        ExitCode.GONE,
    ),
    Fault(
        "machine-deadline",
        TARGET,
        "the schedule is lost; at the window's end the machine's own timer turns it off, and that terminates it",
        _once_reached(_own_timer),
        ExitCode.GONE,
    ),
    Fault(
        "build-missing",
        TARGET,
        "nobody makes the build, and the bucket has none; up refuses before anything is made",
        _no_build,
        ExitCode.REFUSED,
        "there is no build",
        sets=("target.build.where=by_hand",),
    ),
    Fault(
        "build-lost",
        TARGET,
        "the build is there when up looks, and the machine may not read it",
        _lost_build,
        ExitCode.FAILED,
        "build",
    ),
    Fault("build-damaged", TARGET, "the kept build is not what its manifest says", _damaged_build, ExitCode.FAILED, "build"),
    Fault("other-card", TARGET, "the machine has another card than the plan", _other_card, ExitCode.FAILED, "driver"),
    Fault(
        "terminate-fails-once",
        TARGET,
        "the first terminate is refused; the machine stays until asked again",
        _arm("delete_fails"),
        ExitCode.DONE,
    ),
    Fault(
        "aws-unavailable",
        TARGET,
        "RunInstances is answered 503 twice; it is asked again and all goes well",
        _arm("unavailable"),
        ExitCode.DONE,
    ),
    Fault("aws-secret-missing", TARGET, "the secret that the stack names does not exist", _no_secret, ExitCode.FAILED, "token"),
    Fault("aws-secret-empty", TARGET, "the secret's value is nothing but a line end", _empty_secret, ExitCode.FAILED, "token"),
    Fault(
        "power-cut-build",
        TARGET,
        "the machine loses power while it takes the build, and comes back",
        _power_cut,
        ExitCode.DONE,
    ),
    Fault(
        "planted-volume",
        TARGET,
        "a volume that nobody's stack made and no tag marks; the ledger must show it",
        _planted_volume,
        ExitCode.LEFT_BEHIND,
    ),
)
