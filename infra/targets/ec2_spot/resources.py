"""Plan -> argument dictionaries for the resources of one spot machine. Pure: no cloud, no clock, no pulumi."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from infra.clouds.aws import marks, schedules
from infra.kept import Choice, Kept, OnChange, Wanted
from infra.targets.ec2_spot.names import BUILDS, Names
from startup.spec import MAKING_LIMIT, BootSpec, Ec2Boot, SecretRef
from verdict.errors import BadConfig

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.plan import Plan
    from infra.targets.ec2_spot.config import Config
    from startup.render import Rendered

Args = dict[str, Any]
MACHINE_TYPE = "aws:ec2/instance:Instance"  # Pulumi's type of the machine: what the state is searched for
OWN = "own"
STUB = "/var/lib/flexserve/stub"
TERMINATE = "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
HOPS = 2  # of a metadata answer; a container is one hop further

REPLACES_THE_MACHINE = (
    "ami",
    "instanceType",
    "availabilityZone",
    "subnetId",
    "associatePublicIpAddress",
    "instanceMarketOptions",
    "keyName",
    "userData",
    "rootBlockDevice.volumeSize",
    "rootBlockDevice.volumeType",
    "rootBlockDevice.encrypted",
)
"""Inputs whose change replaces the machine, or stops it, which a one-time spot machine cannot be. Source: the provider's schema
(argument reference of `aws_instance`); there are no recordings of it."""

STOPPED_ONLY = ("instanceType", "userData")
"""The second sort: with consent they have to be told to replace."""


def config(plan: Plan) -> Config:
    """The target part of the stack file, by its own type."""
    from infra.targets.ec2_spot.config import Config

    assert isinstance(plan.deployment.target, Config)
    return plan.deployment.target


def boot_spec(plan: Plan) -> BootSpec:
    """What this target adds to the boot. Without an id yet, bucket and key are what they are made of, and nothing runs."""
    from infra.clouds.aws import shapes
    from infra.targets.ec2_spot.build import build_key, recipe

    c, secret = config(plan), plan.deployment.common.secret
    if secret is not None:
        try:
            shapes.secret_id(secret.name)
        except ValueError as error:
            raise BadConfig(f"flexserve:secret.name: {error}") from error
    names = Names(plan.boot.deployment_id)
    ec2 = Ec2Boot(
        region=c.region,
        bucket=bucket_name(c, names),
        script_key=names.script_key,
        builds_prefix=BUILDS,
        build_key=build_key(c, plan.accelerator.capability),
        deadline=plan.boot.ends_at,
        capability=plan.accelerator.capability,
        swap_gb=c.swap_gb(plan.machine.memory_gib),
        recipe=recipe(c),
    )
    limits = {**plan.boot.phase_limits, **({"build": MAKING_LIMIT} if ec2.may_build else {})}
    reference = SecretRef("aws-secrets-manager", c.region, secret.name) if secret else None
    return replace(plan.boot, ec2=ec2, secret=reference, phase_limits=limits)


def wanted(deployment: Deployment, place: str) -> dict[str, Wanted]:
    """The keys that are decided when the machine is created, and what a change of each means for a live one."""
    c = cast("Config", deployment.target)
    chosen = place or c.places[0]
    sizes = (c.machine_type, *c.larger)
    network = OWN if c.network == "own" else f"{c.network.vpc} {sorted(c.network.subnets.items())}"
    price = "none" if c.max_price_per_hour is None else f"{c.max_price_per_hour:g}"
    return {
        "target.region": _fixed(c.region),
        "target.zones": _one_of(", ".join(c.zones), c.zone(chosen), c.zones, place, OnChange.IGNORE),
        "target.machine_type": _one_of(", ".join(sizes), c.size(chosen), sizes, place, OnChange.REFUSE),
        "target.on_demand": _one_of(c.on_demand, c.given(chosen), c.ways, place, OnChange.IGNORE),
        "target.max_price_per_hour": Wanted(price, price, OnChange.IGNORE),
        "target.host_image": Wanted(c.host_image, None, OnChange.IGNORE),
        "target.disk_gb": Wanted(str(c.disk_gb), str(c.disk_gb), OnChange.IGNORE),
        "target.disk_type": _fixed(c.disk_type),
        "target.network": _fixed(network),
        "target.subnet_range": Wanted(c.subnet_range, c.subnet_range, OnChange.NEVER),
        "target.instance_profile": _fixed(c.instance_profile),
        "target.bucket": Wanted(c.bucket, None if c.bucket == OWN else c.bucket, OnChange.REFUSE),
    }


def settled(c: Config, choices: Mapping[str, Choice]) -> Config:
    """The config with what was decided in place of what was asked for. The host image keeps the name it was asked for by: the
    build's key is made of it; the image itself is in the kept state.
    """
    price = choices["target.max_price_per_hour"].value
    return c.model_copy(
        update={
            "zones": (choices["target.zones"].value,),
            "machine_type": choices["target.machine_type"].value,
            "larger": (),
            "on_demand": "only" if choices["target.on_demand"].value == "on_demand" else "never",
            "max_price_per_hour": None if price == "none" else float(price),
            "host_image": choices["target.host_image"].asked,
            "disk_gb": int(choices["target.disk_gb"].value),
            "subnet_range": choices["target.subnet_range"].value,
            "bucket": choices["target.bucket"].value,
        }
    )


def bucket_name(c: Config, names: Names) -> str:
    """The bucket of script and builds: one of our own has the id in its name."""
    return names.base if c.bucket == OWN else c.bucket


def tags(plan: Plan, kept: Kept) -> dict[str, str]:
    """Whose it is, by a random id. `expires` is the end of the window in epoch seconds, counted from when it was asked for."""
    common = plan.deployment.common
    return marks.tags(kept.id, common.owner, plan.deployment.stack, deadline(plan, kept))


def deadline(plan: Plan, kept: Kept) -> int:
    """When machine and schedule both end it, epoch seconds."""
    return kept.started + plan.deployment.common.window


def market(c: Config) -> Args | None:
    """How it is asked for: once, and gone when it is taken back. None at the usual price."""
    if c.on_demand == "only":
        return None
    spot: Args = {"spot_instance_type": "one-time", "instance_interruption_behavior": "terminate"}
    if c.max_price_per_hour is not None:
        spot["max_price"] = f"{c.max_price_per_hour:g}"
    return {"market_type": "spot", "spot_options": spot}


def instance(plan: Plan, kept: Kept, boot: Rendered, *, subnet_id: object, group_id: object, profile: object) -> Args:
    """The machine. The stub says when it ends, so a machine that is replaced gets a new one; on a live one it is not looked at."""
    c, ours, names = config(plan), tags(plan, kept), Names(plan.boot.deployment_id)
    way = market(c)
    return {
        "ami": kept.value("target.host_image"),
        "instance_type": c.machine_type,
        "subnet_id": subnet_id,
        "vpc_security_group_ids": [group_id],
        "associate_public_ip_address": plan.deployment.common.egress == "address",
        "iam_instance_profile": profile,
        "instance_initiated_shutdown_behavior": "terminate",
        **({"instance_market_options": way} if way else {}),
        "metadata_options": {"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": HOPS},
        "root_block_device": {
            "volume_type": c.disk_type,
            "volume_size": c.disk_gb,
            "iops": c.disk_iops,
            "throughput": c.disk_throughput,
            "encrypted": True,
            "delete_on_termination": True,
            "tags": {**ours, "Name": names.base},
        },
        "user_data": boot.stub.decode(),
        "user_data_replace_on_change": True,
        "tags": {**ours, "Name": names.base},
    }


def script_object(plan: Plan, boot: Rendered, bucket: object) -> Args:
    """The boot script: private, and changed in place."""
    names = Names(plan.boot.deployment_id)
    return {"bucket": bucket, "key": names.script_key, "content": boot.script.decode(), "content_type": "text/x-shellscript"}


def association(plan: Plan, boot: Rendered, instance_id: object) -> Args:
    """Runs the stub with the script's hash: Systems Manager does so at once whenever it changes, on the live machine.

    Its agent may come up before the first boot has put the stub in place, which then needs no second run.
    """
    return {
        "name": "AWS-RunShellScript",
        "association_name": Names(plan.boot.deployment_id).base,
        "targets": [{"key": "InstanceIds", "values": [instance_id]}],
        "parameters": {"commands": f"[ ! -e {STUB} ] || bash {STUB} again {boot.sha256}"},
    }


def schedule(plan: Plan, kept: Kept, role_arn: object, body: object) -> Args:
    """The clock outside the machine: ends it at the end of the window, and then deletes itself."""
    name, why = Names(plan.boot.deployment_id).base, f"flexserve {plan.deployment.stack}: the end of the window"
    return schedules.once(name, why, deadline(plan, kept), action=TERMINATE, role_arn=role_arn, body=body)


def terminate_input(instance_id: str) -> str:
    """What the schedule says to EC2."""
    return json.dumps({"InstanceIds": [instance_id]}, separators=(",", ":"))


def outputs(plan: Plan, kept: Kept, boot: Rendered) -> Args:
    """The stack outputs that are known without the cloud; the component adds what the machine tells."""
    names, c, d = Names(plan.boot.deployment_id), config(plan), plan.deployment
    assert plan.boot.ec2 is not None
    return {
        "target": c.kind,
        "stack": d.stack,
        "id": kept.id,
        "owner": d.common.owner,
        "region": c.region,
        "zone": c.zones[0],
        "instance": names.base,
        "machine_type": c.machine_type,
        "host_image": kept.value("target.host_image"),
        "bucket": plan.boot.ec2.bucket,
        "service_account": names.base if c.instance_profile == OWN else "",
        "build": plan.boot.ec2.build_key,
        "model": f"{d.model.name}@{plan.boot.model_revision}",
        "window_s": d.common.window,
        "script_sha256": boot.sha256,
        "price_per_hour": plan.cost.per_hour,
        "price_window": plan.cost.window,
        "price_unknown": list(plan.cost.unknown),
    }


def _fixed(value: str) -> Wanted:
    """A key that a live machine cannot take."""
    return Wanted(value, value, OnChange.REFUSE)


def _one_of(asked: str, value: str, all_: tuple[str, ...], place: str, on_change: OnChange) -> Wanted:
    """One value of a list, or the one that a given place stands for."""
    return Wanted(value if place else asked, value, on_change, fits=(value,) if place else all_)
