"""What can go wrong, by name: each arms a local AWS before the run, or breaks it while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rehearsal.cloud.aws import troubles
from rehearsal.cloud.aws.cloud import LocalAwsCloud

LATE_IAM_S = 30.0
GPU_QUOTAS = ("L-3819A6DF", "L-DB2E81BA")
X86_IMAGE, DRIVERLESS_IMAGE = "ami-0f5e1e5e000000003", "ami-0f5e1e5e000000004"

Arm = Callable[[LocalAwsCloud], None]


@dataclass(frozen=True)
class Named:
    """A trouble with a name: what happens, and what arms it."""

    about: str
    arm: Arm


def _quota(cloud: LocalAwsCloud) -> None:
    for code in GPU_QUOTAS:
        cloud.set_quota(code, 0)


def _image(image_id: str) -> Arm:
    def arm(cloud: LocalAwsCloud) -> None:
        for parameter in {i.parameter for i in cloud.state.inventory.images if "arm64" in i.parameter}:
            cloud.rename_parameter(parameter, image_id)

    return arm


def _secrets(act: Callable[[LocalAwsCloud, str], None]) -> Arm:
    def arm(cloud: LocalAwsCloud) -> None:
        for name in cloud.secret_names():
            act(cloud, name)

    return arm


def _dear(cloud: LocalAwsCloud) -> None:
    for name in cloud.state.inventory.spot_prices:
        cloud.set_spot_price(name, 99.0)


def _planted(cloud: LocalAwsCloud) -> None:
    cloud.put_volume(f"{cloud.region}a")


NAMED: Mapping[str, Named] = {
    "no-capacity": Named("no zone has capacity, spot or on demand", lambda c: c.arm(troubles.no_capacity())),
    "no-capacity-once": Named("the first attempt meets a stock-out", lambda c: c.arm(troubles.no_capacity(times=1))),
    "zone-lacks-type": Named("the first zone does not offer g5g after all", lambda c: c.take_family(f"{c.region}a", "g5g.")),
    "quota-0": Named("the account may run no G instance", _quota),
    "late-iam": Named(f"changes of IAM are seen {LATE_IAM_S:.0f} s late", lambda c: c.delay_iam(LATE_IAM_S)),
    "wrong-ami": Named("the public parameter names an x86_64 image", _image(X86_IMAGE)),
    "driverless-ami": Named("the public parameter names an image without the NVIDIA driver", _image(DRIVERLESS_IMAGE)),
    "price-too-low": Named("the spot price rose above any that is offered", _dear),
    "secret-missing": Named("the secret is not there", _secrets(LocalAwsCloud.drop_secret)),
    "secret-empty": Named("the secret holds a line end and nothing else", _secrets(LocalAwsCloud.empty_secret)),
    "no-permission": Named("the operator may not run instances", lambda c: c.deny("ec2:RunInstances")),
    "unavailable": Named("503 twice, for RunInstances", lambda c: c.arm(troubles.unavailable())),
    "throttled": Named("throttled twice, for RunInstances", lambda c: c.arm(troubles.throttled())),
    "unseen-instance": Named("the instance is not found just after it was run", lambda c: c.arm(troubles.unseen())),
    "delete-fails-once": Named("the first TerminateInstances is refused", lambda c: c.arm(troubles.delete_fails())),
    "planted-volume": Named("a volume of nobody's bills", _planted),
}
