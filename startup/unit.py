"""The command of a server that runs from a kept build, and the hash by which a running one is known to be the wanted one."""

from __future__ import annotations

import hashlib
import json

from startup.container import model_dir
from startup.onboard.places import BUILDS
from startup.spec import BootSpec

# Weights are on the disk and complete: nothing is asked of the Hub, and nobody is told of the use.
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HOME": "/root"}


def build_dir(spec: BootSpec) -> str:
    """Where the machine unpacks the build."""
    assert spec.ec2 is not None
    return f"{BUILDS}/{spec.ec2.build_key}"


def command(spec: BootSpec) -> tuple[str, ...]:
    """The command, as `env` takes it. The build's own programs come first on PATH: vLLM starts a compiler by name."""
    bin_dir = f"{build_dir(spec)}/venv/bin"
    path = f"{bin_dir}:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = {**ENVIRONMENT, "PATH": path, **spec.environment}
    settings = tuple(f"{name}={environment[name]}" for name in sorted(environment))
    return (*settings, f"{bin_dir}/vllm", "serve", model_dir(spec), *spec.vllm_options)


def config_hash(spec: BootSpec) -> str:
    """Over everything that makes the server what it is."""
    text = json.dumps(command(spec), separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def words(spec: BootSpec) -> tuple[str, ...]:
    """What the engine starts: the hash, then the command."""
    return (config_hash(spec), *command(spec))
