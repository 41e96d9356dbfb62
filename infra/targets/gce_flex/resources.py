"""Plan -> argument dictionaries for the resources of one flex-start VM. Pure: no cloud, no clock, no pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from infra.access import SERVER_PORT, SSH_PORT, Iap, to_output
from infra.clouds.google import shapes
from infra.kept import Choice, Kept, OnChange, Wanted
from infra.targets.gce_flex.names import Names, label, resource_path
from startup.spec import BootSpec, SecretRef

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.plan import Plan
    from infra.targets.gce_flex.config import Config
    from startup.render import Rendered

Args = dict[str, Any]
MACHINE_TYPE = "gcp:compute/instance:Instance"  # Pulumi's type of the machine: what the state is searched for
FIRST, SECOND, USUAL = 0, 1, 1000  # firewall priorities: the lowest number wins

REPLACES_THE_MACHINE = (
    "name",
    "zone",
    "project",
    "bootDisk.initializeParams.image",
    "bootDisk.initializeParams.type",
    "bootDisk.initializeParams.labels",
    "reservationAffinity",
    "scheduling.maxRunDuration",
    "scheduling.provisioningModel",
    "metadataStartupScript",
    "machineType",
    "serviceAccount",
    "networkInterfaces[0].network",
    "networkInterfaces[0].subnetwork",
)
"""Inputs whose change replaces a VM, or is shown as an update and refused when applied. Source: recordings of the provider."""

STOPPED_ONLY = ("machineType", "serviceAccount", "networkInterfaces[0].network", "networkInterfaces[0].subnetwork")
"""The second sort: with consent they have to be told to replace."""


def config(plan: Plan) -> Config:
    """The target part of the stack file, by its own type."""
    from infra.targets.gce_flex.config import Config

    assert isinstance(plan.deployment.target, Config)
    return plan.deployment.target


def boot_spec(plan: Plan) -> BootSpec:
    """What this target adds to the boot: the TPU container's options and where the token is kept.

    Source of the options: vLLM's TPU documentation; public run of 2026-07-21 (10 GB of shared memory sufficed).
    """
    secret = plan.deployment.common.secret
    if secret:
        shapes.require_secret_id(secret.name, "flexserve:secret.name")
    return replace(
        plan.boot,
        docker_options=("--privileged", "--net=host", "-v", "/dev/shm:/dev/shm", "--shm-size", "10gb"),
        secret=SecretRef("google-secret-manager", config(plan).project, secret.name) if secret else None,
    )


def wanted(deployment: Deployment, place: str) -> dict[str, Wanted]:
    """The keys that are decided when the VM is created, and what a change of each means for a live one."""
    c = cast("Config", deployment.target)
    network = "own" if c.network == "own" else f"{c.network.name} {c.network.subnetwork}"
    image = None if "/family/" in c.host_image else c.host_image
    return {
        "target.project": _fixed(c.project),
        "target.zones": Wanted(
            place or ", ".join(c.zones), place or c.zones[0], OnChange.IGNORE, fits=(place,) if place else c.zones
        ),
        "target.host_image": Wanted(c.host_image, image, OnChange.IGNORE),
        "target.disk_gb": Wanted(str(c.disk_gb), str(c.disk_gb), OnChange.IGNORE),
        "target.disk_type": _fixed(c.disk_type),
        "target.machine_type": _fixed(c.machine_type),
        "target.network": _fixed(network),
        "target.subnet_range": Wanted(c.subnet_range, c.subnet_range, OnChange.NEVER),
        "target.service_account": _fixed(c.service_account),
    }


def settled(c: Config, choices: Mapping[str, Choice]) -> Config:
    """The config with what was decided in place of what was asked for."""
    return c.model_copy(
        update={
            "zones": (choices["target.zones"].value,),
            "host_image": choices["target.host_image"].value,
            "disk_gb": int(choices["target.disk_gb"].value),
            "subnet_range": choices["target.subnet_range"].value,
        }
    )


def labels(plan: Plan, kept: Kept) -> dict[str, str]:
    """Whose it is, by a random id. `expires` is the earliest end, in epoch seconds.

    It counts from when the VM was asked for, which is kept: what the cloud counts from is known only after the create, and a
    label that changed then would be a change at the next `up`. The exact end is the output `expires_at`.
    """
    return {
        "app": "flexserve",
        "flexserve-id": kept.id,
        "flexserve-owner": label(plan.deployment.common.owner),
        "flexserve-stack": label(plan.deployment.stack),
        "flexserve-expires": str(kept.started + plan.deployment.common.window),
    }


def service_account(plan: Plan) -> Args:
    """The machine's own identity; it can read one secret and nothing else."""
    names = Names(plan.boot.deployment_id)
    return {"account_id": names.base, "display_name": f"flexserve {plan.deployment.stack}", "project": config(plan).project}


def secret_grant(plan: Plan, email: object) -> Args | None:
    """Read access to exactly the secret of the stack file, or None where there is none or the grant is yours."""
    secret = plan.deployment.common.secret
    if secret is None or secret.grant == "existing":
        return None
    return {
        "project": config(plan).project,
        "secret_id": secret.name,
        "role": "roles/secretmanager.secretAccessor",
        "member": email,
    }


def network(plan: Plan) -> Args:
    """A network of our own: custom mode, so no subnetworks and no rules that nobody asked for."""
    return {"name": _regional(plan), "project": config(plan).project, "auto_create_subnetworks": False}


def subnetwork(plan: Plan, network_id: object) -> Args:
    """Its only subnetwork. Google's own APIs are reached without an external address."""
    c = config(plan)
    return {
        "name": _regional(plan),
        "project": c.project,
        "region": plan.region,
        "network": network_id,
        "ip_cidr_range": c.subnet_range,
        "private_ip_google_access": True,
    }


def firewalls(plan: Plan, network_id: object) -> dict[str, Args]:
    """The tunnel may reach ssh and the server on our tag. On a network of yours nobody else may, whatever its own rules say."""
    names, c = Names(plan.boot.deployment_id), config(plan)
    existing, access = c.network != "own", plan.deployment.common.access
    assert access is not None
    place = names.base if existing else _regional(plan)
    common = {
        "project": resource_path(c.network.name).get("projects", c.project) if c.network != "own" else c.project,
        "network": network_id,
        "direction": "INGRESS",
        "target_tags": [names.base],
    }
    allow = {
        **common,
        "name": f"{place}-iap",
        "priority": FIRST if existing else USUAL,
        "source_ranges": list(access.source_ranges),
        "allows": [{"protocol": "tcp", "ports": [str(SSH_PORT), str(SERVER_PORT)]}],
    }
    deny = {
        **common,
        "name": f"{place}-deny",
        "priority": SECOND,
        "source_ranges": ["0.0.0.0/0"],
        "denies": [{"protocol": "all"}],
    }
    return {"iap": allow, "deny": deny} if existing else {"iap": allow}


def router(plan: Plan, network_id: object) -> Args:
    """What a NAT hangs on."""
    return {"name": _regional(plan), "project": config(plan).project, "region": plan.region, "network": network_id}


def nat(plan: Plan, router_name: object, subnetwork_id: object) -> Args:
    """The way out without an external address, for our subnetwork only."""
    return {
        "name": _regional(plan),
        "project": config(plan).project,
        "region": plan.region,
        "router": router_name,
        "nat_ip_allocate_option": "AUTO_ONLY",
        "source_subnetwork_ip_ranges_to_nat": "LIST_OF_SUBNETWORKS",
        "subnetworks": [{"name": subnetwork_id, "source_ip_ranges_to_nats": ["ALL_IP_RANGES"]}],
    }


def existing_network(plan: Plan) -> tuple[str, str]:
    """Network and subnetwork of yours, as full resource paths."""
    c = config(plan)
    assert c.network != "own"
    project = resource_path(c.network.name).get("projects", c.project)
    network = c.network.name if "/" in c.network.name else f"projects/{project}/global/networks/{c.network.name}"
    short = c.network.subnetwork
    path = short if "/" in short else f"projects/{project}/regions/{plan.region}/subnetworks/{short}"
    return network, path


def scheduling(plan: Plan) -> Args:
    """Flex-start scheduling block of `compute.Instance`.

    The fields belong together: an older provider drops the first in silence and bills the standard rate.
    Source: Compute Engine provisioning models; terraform-provider-google issue 24172.
    """
    return {
        "provisioning_model": "FLEX_START",
        "max_run_duration": {"seconds": plan.deployment.common.window},
        "instance_termination_action": "DELETE",
        "automatic_restart": False,
        "on_host_maintenance": "TERMINATE",
    }


def metadata(boot: Rendered) -> dict[str, str]:
    """What the machine reads. The stub never changes; the script may, in place: a watcher in the machine runs it again.

    `startup-script` as a metadata key is updated in place; the argument of that name would replace the VM.
    Log-in by ssh needs OS Login, so that keys of the project's metadata open nothing.
    """
    return {
        "startup-script": boot.stub.decode(),
        "flexserve-script": boot.script.decode(),
        "flexserve-script-sha256": boot.sha256,
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
    }


def instance(plan: Plan, kept: Kept, boot: Rendered, *, subnetwork_id: object, email: object) -> Args:
    """The flex-start VM. The default NIC type: that v6e needs gVNIC is documented nowhere."""
    names, c = Names(plan.boot.deployment_id), config(plan)
    interface: Args = {"subnetwork": subnetwork_id}
    if plan.deployment.common.egress == "address":
        interface["access_configs"] = [{}]
    ours = labels(plan, kept)
    return {
        "name": names.base,
        "project": c.project,
        "zone": c.zones[0],
        "machine_type": c.machine_type,
        "boot_disk": {
            "auto_delete": True,
            "initialize_params": {"image": c.host_image, "size": c.disk_gb, "type": c.disk_type, "labels": ours},
        },
        "network_interfaces": [interface],
        "scheduling": scheduling(plan),
        "reservation_affinity": {"type": "NO_RESERVATION"},
        "service_account": {"email": email, "scopes": ["cloud-platform"]},
        "metadata": metadata(boot),
        "labels": ours,
        "tags": [names.base],
    }


def tunnel_grants(plan: Plan, instance_name: object) -> dict[str, Args]:
    """For each named member the right to open a tunnel to this VM and to no other."""
    access = plan.deployment.common.access
    if access is None or access.grants == "existing":
        return {}
    common = {
        "project": config(plan).project,
        "zone": config(plan).zones[0],
        "instance": instance_name,
        "role": "roles/iap.tunnelResourceAccessor",
    }
    return {member: {**common, "member": member} for member in access.members}


def outputs(plan: Plan, kept: Kept, boot: Rendered) -> Args:
    """The stack outputs that are known without the cloud; the component adds `expires_at` and `provisioning`."""
    names, c, d = Names(plan.boot.deployment_id), config(plan), plan.deployment
    assert d.image is not None
    return {
        "target": c.kind,
        "stack": d.stack,
        "id": kept.id,
        "owner": d.common.owner,
        "project": c.project,
        "zone": c.zones[0],
        "instance": names.base,
        "machine_type": c.machine_type,
        "host_image": c.host_image,
        "image": f"{d.image.repository}@{plan.boot.image_digest}",
        "model": f"{d.model.name}@{plan.boot.model_revision}",
        "window_s": d.common.window,
        "script_sha256": boot.sha256,
        "price_per_hour": plan.cost.per_hour,
        "price_window": plan.cost.window,
        "price_unknown": list(plan.cost.unknown),
        "access": to_output(Iap(project=c.project, zone=c.zones[0], instance=names.base)),
    }


def _regional(plan: Plan) -> str:
    return Names(plan.boot.deployment_id).regional(plan.region)


def _fixed(value: str) -> Wanted:
    """A key that a live VM cannot take."""
    return Wanted(value, value, OnChange.REFUSE)
