"""Plan -> argument dictionaries (pure), and the component that registers them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from startup.spec import BootSpec, SecretRef

if TYPE_CHECKING:
    from infra.plan import Plan
    from infra.targets.gce_flex.config import Config


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
    return replace(
        plan.boot,
        docker_options=("--privileged", "--net=host", "-v", "/dev/shm:/dev/shm", "--shm-size", "10gb"),
        secret=SecretRef("google-secret-manager", config(plan).project, secret.name) if secret else None,
    )
