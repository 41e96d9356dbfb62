"""Plan -> what a builder is made of: its boot, rights, tags and the arguments of RunInstances. Pure.

A builder is a machine without a card that lives for one build. It is no part of the Pulumi program: a program says what there is to
be, and a builder is to be gone. What finds and removes it is its id, as for everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from infra.clouds.aws import marks
from infra.targets.ec2_spot import resources as r
from infra.targets.ec2_spot.build import made_of
from infra.targets.ec2_spot.config import FREE_IOPS
from infra.targets.ec2_spot.names import BUILDS, Names
from startup.spec import BootSpec, Ec2Boot

if TYPE_CHECKING:
    from catalog.rows import BuilderType
    from infra.plan import Plan
    from infra.targets.ec2_spot.config import Config
    from startup.render import Rendered

Args = dict[str, Any]
TEMPLATE = "ec2_builder"
PURPOSE_TAG, PURPOSE = "flexserve-purpose", "builder"
BUCKET_TAG, BUILD_TAG = "flexserve-bucket", "flexserve-build"
THROUGHPUT = 250  # MiB/s of the disk: a compiler is not held up by it
REPORT = "report"


def boot_spec(plan: Plan, id_: str, bucket: str, deadline: int, row: BuilderType) -> BootSpec:
    """What the builder runs. It needs neither the model nor a secret."""
    c, names = r.config(plan), Names(id_)
    assert plan.boot.ec2 is not None
    ec2 = Ec2Boot(
        region=c.region,
        bucket=bucket,
        script_key=names.script_key,
        builds_prefix=BUILDS,
        build_key=plan.boot.ec2.build_key,
        deadline=deadline,
        capability=plan.accelerator.capability,
        swap_gb=c.swap_gb(row.memory_gib),
        recipe=made_of(c),
    )
    return replace(plan.boot, template=TEMPLATE, deployment_id=id_, secret=None, ec2=ec2)


def tags(plan: Plan, id_: str, owner: str, deadline: int, bucket: str) -> dict[str, str]:
    """Whose it is, what for, and until when; and what another operator's machine needs to go on with it."""
    assert plan.boot.ec2 is not None
    return {
        **marks.tags(id_, owner, plan.deployment.stack, deadline),
        PURPOSE_TAG: PURPOSE,
        BUCKET_TAG: bucket,
        BUILD_TAG: plan.boot.ec2.build_key,
        "Name": f"{Names(id_).base}-builder",
    }


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As most of AWS's APIs take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tagged(kind: str, tags: Mapping[str, str]) -> list[Args]:
    """As EC2 takes them with what it makes."""
    return [{"ResourceType": kind, "Tags": tag_list(tags)}]


def places(c: Config) -> Iterator[tuple[str, bool]]:
    """Zone and whether at spot, in the order in which they are asked for."""
    ways = {"never": (True,), "fall_back": (True, False), "only": (False,)}[c.build.on_demand]
    yield from ((zone, spot) for spot in ways for zone in c.zones)


def instance(
    c: Config, boot: Rendered, ours: Mapping[str, str], *, image: str, root: str, subnet: str, group: str, profile: str, spot: bool,
    address: bool,
) -> Args:  # fmt: skip
    """The arguments of RunInstances. `root`: the image's root device."""
    disk = {
        "VolumeType": c.disk_type,
        "VolumeSize": c.builder_gb,
        "Iops": FREE_IOPS,
        "Throughput": THROUGHPUT,
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    nic = {
        "DeviceIndex": 0,
        "SubnetId": subnet,
        "Groups": [group],
        "AssociatePublicIpAddress": address,
        "DeleteOnTermination": True,
    }
    once = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    kinds = ("instance", "volume", "network-interface", *(("spot-instances-request",) if spot else ()))
    return {
        "ImageId": image,
        "InstanceType": c.build.machine_type,
        "MinCount": 1,
        "MaxCount": 1,
        "NetworkInterfaces": [nic],
        "IamInstanceProfile": {"Name": profile},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{"DeviceName": root, "Ebs": disk}],
        "UserData": boot.stub.decode(),  # boto3 encodes it
        "TagSpecifications": [spec for kind in kinds for spec in tagged(kind, ours)],
        **({"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": once}} if spot else {}),
    }


def schedule(plan: Plan, names: Names, deadline: int, role: str, instance_id: str) -> Args:
    """The clock outside the machine: ends it at its limit, and then deletes itself."""
    at = datetime.fromtimestamp(deadline, UTC)
    return {
        "Name": names.base,
        "Description": f"flexserve {plan.deployment.stack}: the end of the builder",
        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {"Arn": r.TERMINATE, "RoleArn": role, "Input": r.terminate_input(instance_id)},
    }
