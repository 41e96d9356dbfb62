"""The `docker run …` of a boot, and the hash by which a running container is known to be the wanted one."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath

from startup.onboard.places import CONTAINER, LABEL
from startup.spec import STATE_DIR, BootSpec

MODELS_INSIDE = PurePosixPath("/models")
CACHE_INSIDE = "/var/cache/flexserve-xla"
# Weights are on the disk and complete: nothing is asked of the Hub, and nobody is told of the use.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_XLA_CACHE_PATH": CACHE_INSIDE,
    "JAX_COMPILATION_CACHE_DIR": CACHE_INSIDE,
}


def model_dir(spec: BootSpec) -> str:
    """Where the machine keeps the weights: one folder a revision, so that another one is never mixed in."""
    return f"{STATE_DIR}/models/{spec.model.replace('/', '--')}/{spec.model_revision or 'unresolved'}"


def cache_dir() -> str:
    """Where the compile cache is kept: on the boot disk, for restarts of the container and the machine."""
    return f"{STATE_DIR}/xla-cache"


def config_hash(spec: BootSpec) -> str:
    """Over everything that makes the container what it is."""
    text = json.dumps(_words(spec), separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def run_words(spec: BootSpec) -> tuple[str, ...]:
    """The whole command. Detached, named, labelled; the image was pulled before and the log stays bounded."""
    head = ("docker", "run", "--detach", "--name", CONTAINER, "--label", f"{LABEL}={config_hash(spec)}")
    return (*head, *_words(spec))


def _words(spec: BootSpec) -> tuple[str, ...]:
    inside = str(MODELS_INSIDE / spec.model)
    environment = {**ENVIRONMENT, **spec.environment}
    return (
        *("--restart", "unless-stopped", "--pull", "never"),
        *("--log-driver", "json-file", "--log-opt", "max-size=64m", "--log-opt", "max-file=3"),
        *("--volume", f"{model_dir(spec)}:{inside}:ro", "--volume", f"{cache_dir()}:{CACHE_INSIDE}"),
        *(word for name in sorted(environment) for word in ("--env", f"{name}={environment[name]}")),
        *spec.docker_options,
        spec.image_reference,
        *("vllm", "serve", inside),
        *spec.vllm_options,
    )
