"""Plan -> argument dictionaries for the resources of one endpoint. Pure: no cloud, no clock, no pulumi."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from infra.clouds.aws import marks, schedules
from infra.clouds.aws.marks import ID_TAG
from infra.kept import Choice, Kept, OnChange, Wanted
from infra.targets.sagemaker.environment import environment
from infra.targets.sagemaker.names import VARIANT, Names
from infra.targets.sagemaker.rights import VARIANTS
from startup import image
from startup.spec import BootSpec, SageMakerBoot, SecretRef
from verdict.errors import BadConfig

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.plan import Plan
    from infra.targets.sagemaker.config import Config
    from infra.targets.sagemaker.moving import Serving
    from startup.render import Rendered

Args = dict[str, Any]
MACHINE_TYPE = "aws:sagemaker/endpoint:Endpoint"  # Pulumi's type of what serves: what the state is searched for
OWN = "own"
TURING = "7.5"
DELETE_ENDPOINT = "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"
METRICS = {
    "concurrency": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    "invocations": "SageMakerVariantInvocationsPerInstance",
}
BUILD_MINUTES, QUEUED_MINUTES = 60, 30  # measured: 191 s of build, 565 s of push
BUILD_COMPUTE = "BUILD_GENERAL1_LARGE"  # 8 GiB of image are unpacked and pushed
BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"


def config(plan: Plan) -> Config:
    """The target part of the stack file, by its own type."""
    from infra.targets.sagemaker.config import Config

    assert isinstance(plan.deployment.target, Config)
    return plan.deployment.target


def boot_spec(plan: Plan) -> BootSpec:
    """What this target adds to the boot. Without an id yet, the repository is what it is made of, and nothing is built."""
    from infra.clouds.aws import shapes

    c, secret = config(plan), plan.deployment.common.secret
    if secret is not None:
        try:
            shapes.secret_id(secret.name)
        except ValueError as error:
            raise BadConfig(f"flexserve:secret.name: {error}") from error
    names, built = Names(plan.boot.deployment_id), c.image_source == "patched"
    sagemaker = SageMakerBoot(
        region=c.region,
        gpu=plan.accelerator.name.upper(),
        capability=TURING if built else plan.accelerator.capability,  # one built image serves every card
        repository=repository_name(c, names) if built else "",
        patch=built,
        wrapped=c.image_source == "own",
        secret_arn=secret.name if secret else "",
    )
    reference = SecretRef("aws-secrets-manager", c.region, secret.name) if secret else None
    more = environment(plan.vllm, plan.boot.model_revision or "unresolved", plan.deployment.serving.environment)
    return replace(plan.boot, sagemaker=sagemaker, secret=reference, environment=more)


def as_resolved(boot: BootSpec, kept: Kept) -> BootSpec:
    """As the container gets it: the secret by its ARN, which is no part of what the script's hash is made of."""
    if boot.sagemaker is None or "secret" not in kept.choices:
        return boot
    return replace(boot, sagemaker=replace(boot.sagemaker, secret_arn=kept.value("secret")))


def wanted(deployment: Deployment, place: str) -> dict[str, Wanted]:  # noqa: ARG001 - there is one place
    """The keys that are decided at create. All else of an endpoint changes in place: a new configuration, blue/green."""
    c = cast("Config", deployment.target)
    found: dict[str, Wanted] = {"target.region": Wanted(c.region, c.region, OnChange.REFUSE)}
    if c.image_source == "patched":
        own = c.repository == OWN
        found["target.repository"] = Wanted(c.repository, None if own else c.repository, OnChange.FOLLOW)
    if deployment.common.secret is not None:
        found["secret"] = Wanted(deployment.common.secret.name, None, OnChange.FOLLOW)
    return found


def settled(c: Config, choices: Mapping[str, Choice]) -> Config:
    """The config with what was decided in place of what was asked for."""
    repository = choices["target.repository"].value if "target.repository" in choices else c.repository
    return c.model_copy(update={"region": choices["target.region"].value, "repository": repository})


def repository_name(c: Config, names: Names) -> str:
    """The repository of the built image: one of our own has the id in its name."""
    return names.base if c.repository == OWN else c.repository


def tags(plan: Plan, kept: Kept) -> dict[str, str]:
    """Whose it is, by a random id. `expires` is the end of the window in epoch seconds, counted from when it was asked for."""
    common = plan.deployment.common
    return marks.tags(kept.id, common.owner, plan.deployment.stack, deadline(plan, kept))


def deadline(plan: Plan, kept: Kept) -> int:
    """When the schedule ends it, epoch seconds."""
    return kept.started + plan.deployment.common.window


def model(plan: Plan, kept: Kept, image_uri: str, role_arn: str) -> Args:
    """The model: image, environment, role. It never changes; its name is made of what it is, so the next one has another."""
    found: Args = {
        "execution_role_arn": role_arn,
        "primary_container": {"image": image_uri, "environment": container_environment(plan, kept)},
    }
    text = json.dumps(found, sort_keys=True)
    name = f"{Names(kept.id).each}{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
    return {"name": name, **found, "tags": tags(plan, kept)}


def container_environment(plan: Plan, kept: Kept) -> dict[str, str]:
    """As the container gets it: the secret by its ARN, where it was asked for."""
    return image.environment(as_resolved(plan.boot, kept))


def configuration(plan: Plan, kept: Kept, boot: Rendered, model_name: object, count: object = None) -> Args:
    """What an endpoint runs on. It never changes either: SageMaker moves the endpoint to the next one.

    `count`: how many machines it begins with, where that is not the fewest. The tags tell what it is for: which script, and which
    CUDA the image has.
    """
    return {
        "name_prefix": Names(kept.id).each,
        "production_variants": [
            {
                "variant_name": VARIANT,
                "initial_instance_count": config(plan).count.min if count is None else count,
                "routing_configs": [{"routing_strategy": "LEAST_OUTSTANDING_REQUESTS"}],
                **_variant(plan, model_name),
            }
        ],
        "tags": {**tags(plan, kept), "flexserve-script": boot.sha256, "flexserve-cuda": plan.cuda[0]},
    }


def _variant(plan: Plan, model_name: object) -> Args:
    """What another configuration is needed for, with the number of machines."""
    c = config(plan)
    return {
        "model_name": model_name,
        "instance_type": c.machine_type,
        "inference_ami_version": plan.host_image,
        "container_startup_health_check_timeout_in_seconds": c.start_timeout,
        "model_data_download_timeout_in_seconds": c.download_timeout,
    }


def machines(plan: Plan, model_name: str, now: Serving) -> int:
    """How many machines the configuration begins with, of an endpoint that is there and scales: those that it has come to.

    Where nothing but that number would differ from what the endpoint has, it stays: scaling within the bounds is no change.
    """
    fewest, most = config(plan).machines
    asked = {"".join(word.title() for word in key.split("_")): value for key, value in _variant(plan, model_name).items()}
    same = all(now.variant.get(key) == value for key, value in asked.items())
    if same and (not now.machines or fewest <= now.machines <= most):
        return int(now.variant.get("InitialInstanceCount") or fewest)
    return min(max(now.machines, fewest), most)


def endpoint(plan: Plan, kept: Kept, config_name: object) -> Args:
    """What is called: its name stays, and a new configuration takes over while the old machines go on serving."""
    routing = {"type": "ALL_AT_ONCE", "wait_interval_in_seconds": 0}
    return {
        "name": Names(kept.id).base,
        "endpoint_config_name": config_name,
        "deployment_config": {
            "blue_green_update_policy": {
                "traffic_routing_configuration": routing,
                "termination_wait_in_seconds": config(plan).overlap_s,
            }
        },
        "tags": tags(plan, kept),
    }


def scaling_target(plan: Plan, kept: Kept) -> Args:
    """Between how many machines SageMaker may choose."""
    c = config(plan)
    return {
        "service_namespace": "sagemaker",
        "scalable_dimension": VARIANTS,
        "resource_id": Names(kept.id).resource,
        "min_capacity": c.count.min,
        "max_capacity": c.count.max,
        "tags": tags(plan, kept),
    }


def scaling_policy(plan: Plan, kept: Kept) -> Args:
    """When it adds and takes away machines: so that each has about so many requests."""
    c, names = config(plan), Names(kept.id)
    return {
        "name": names.base,
        "policy_type": "TargetTrackingScaling",
        "service_namespace": "sagemaker",
        "scalable_dimension": VARIANTS,
        "resource_id": names.resource,
        "target_tracking_scaling_policy_configuration": {
            "target_value": c.scaling.target,
            "predefined_metric_specification": {"predefined_metric_type": METRICS[c.scaling.by]},
            "scale_in_cooldown": c.scaling.in_after,
            "scale_out_cooldown": c.scaling.out_after,
        },
    }


def schedule(plan: Plan, kept: Kept, role_arn: object) -> Args:
    """The cloud's own clock: deletes the endpoint at the end of the window, and then itself."""
    name, body = Names(kept.id).base, json.dumps({"EndpointName": Names(kept.id).base})
    why = f"flexserve {plan.deployment.stack}: the end of the window"
    return schedules.once(name, why, deadline(plan, kept), action=DELETE_ENDPOINT, role_arn=role_arn, body=body)


def budget(plan: Plan, kept: Kept) -> Args:
    """A mail once the month's cost of what carries the id is over the sum. The tag has to be a cost allocation tag."""
    alarm = config(plan).alarm
    assert alarm is not None
    return {
        "name": Names(kept.id).base,
        "budget_type": "COST",
        "limit_amount": f"{alarm.usd:.2f}".removesuffix(".00"),
        "limit_unit": "USD",
        "time_unit": "MONTHLY",
        "cost_filters": [{"name": "TagKeyValue", "values": [f"user:{ID_TAG}${kept.id}"]}],
        "notifications": [
            {
                "comparison_operator": "GREATER_THAN",
                "threshold": 100,
                "threshold_type": "PERCENTAGE",
                "notification_type": "ACTUAL",
                "subscriber_email_addresses": [alarm.mail],
            }
        ],
        "tags": tags(plan, kept),
    }


def repository(plan: Plan, kept: Kept) -> Args:
    """Where the built image lies. A tag is never moved to another image."""
    return {"name": Names(kept.id).base, "image_tag_mutability": "IMMUTABLE", "tags": tags(plan, kept)}


def context_object(kept: Kept, packed: bytes, bucket: object) -> Args:
    """What the image is built from, as one zip."""
    import base64

    key = Names(kept.id).context(hashlib.sha256(packed).hexdigest())
    return {"bucket": bucket, "key": key, "content_base64": base64.b64encode(packed).decode(), "content_type": "application/zip"}


def build_project(plan: Plan, kept: Kept, role_arn: object, location: object, repository_uri: object) -> Args:
    """Builds the image and pushes it; it costs nothing until it is started."""
    names = Names(kept.id)
    return {
        "name": names.base,
        "description": f"flexserve {plan.deployment.stack}: the endpoint's image",
        "service_role": role_arn,
        "source": {"type": "S3", "location": location},
        "artifacts": {"type": "NO_ARTIFACTS"},
        "environment": {
            "type": "LINUX_CONTAINER",
            "compute_type": BUILD_COMPUTE,
            "image": BUILD_IMAGE,
            "privileged_mode": True,
            "environment_variables": [{"name": image.BUILD_VARIABLE, "value": repository_uri}],
        },
        "logs_config": {"cloudwatch_logs": {"group_name": names.build_logs}},
        "build_timeout": BUILD_MINUTES,
        "queued_timeout": QUEUED_MINUTES,
        "tags": tags(plan, kept),
    }


def served(plan: Plan) -> str:
    """The name that the server knows its model by, the first of several: through SageMaker it cannot be asked for it."""
    name = plan.vllm.options().get("served-model-name") or plan.model.name
    return str(name[0] if isinstance(name, list | tuple) else name)


def log_group(plan: Plan, kept: Kept, name: str) -> Args:
    """A group that is there before anything writes to it: what is missing then is the stream, which tells something."""
    return {"name": name, "retention_in_days": config(plan).log_days, "tags": tags(plan, kept)}


def outputs(plan: Plan, kept: Kept, boot: Rendered) -> Args:
    """The stack outputs that are known without the cloud; the component adds what the endpoint tells."""
    names, c, d = Names(kept.id), config(plan), plan.deployment
    assert plan.boot.sagemaker is not None
    return {
        "target": c.kind,
        "stack": d.stack,
        "id": kept.id,
        "owner": d.common.owner,
        "region": c.region,
        "zone": c.region,
        "endpoint": names.base,
        "machine_type": c.machine_type,
        "host_image": plan.host_image,
        "repository": plan.boot.sagemaker.repository,
        "bucket": "" if c.image_source != "patched" or c.bucket == OWN else c.bucket,
        "service_account": names.run if c.execution_role == OWN else c.execution_role.rpartition("/")[2],
        "model": f"{d.model.name}@{plan.boot.model_revision}",
        "window_s": d.common.window,
        "script_sha256": boot.sha256,
        "price_per_hour": plan.cost.per_hour,
        "price_per_hour_most": (plan.most or plan.cost).per_hour,
        "prices": [list(row) for row in kept.prices],
        "price_window": plan.cost.window,
        "price_unknown": list(plan.cost.unknown),
    }
