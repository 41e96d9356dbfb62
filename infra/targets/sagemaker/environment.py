"""The container's environment: vLLM's arguments as `SM_VLLM_*`, and what else it is told. Never a secret's value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from startup.vllm import VllmArgs, sagemaker_environment

if TYPE_CHECKING:
    from infra.rules.rule import Situation

QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}  # nobody is told of the use
SECRET = "FLEXSERVE_SECRET_ARN"
ARN_BYTES = 200  # room for an ARN that is not known yet


def environment(args: VllmArgs, revision: str, more: Mapping[str, str]) -> dict[str, str]:
    """All but the secret's name. The container downloads the weights itself, at the revision; its port is its own (8080)."""
    return {**QUIET, **more, **sagemaker_environment(replace(args, revision=revision, host=None, port=None))}


def of_situation(s: Situation) -> dict[str, str]:
    """As large as it will be, before anything is resolved. Raises `BadConfig` for options that vLLM does not know."""
    from infra.plan import vllm_args

    assert s.model is not None and s.machine is not None and s.accelerator is not None
    args = vllm_args(s.deployment, s.model, s.machine, s.accelerator)
    found = environment(args, "0" * 40, s.deployment.serving.environment)
    return {**found, SECRET: "x" * ARN_BYTES} if s.deployment.common.secret else found
