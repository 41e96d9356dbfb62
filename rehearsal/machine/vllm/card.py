"""Which card the stand-in pretends to have, and what an unpatched kernel does on an old one."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

KERNEL = Path("v1/attention/ops/triton_unified_attention.py")
PATCHED = b"flexserve turing tile"
OUT_OF_SHARED_MEMORY = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536. "
    "Reducing block sizes or `num_stages` may help."
)


def capability() -> tuple[int, int]:
    """What `nvidia-smi` says of the card; (0, 0) without one."""
    try:
        argv = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout
        major, minor = said.strip().split(".")
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0, 0


def too_large() -> bool:
    """Whether Gemma 4's wide layers overflow this card's shared memory: a Turing card, and a vLLM without the patch."""
    if not (7, 0) <= capability() < (8, 0):
        return False
    found = importlib.util.find_spec("vllm")
    places = list(found.submodule_search_locations or ()) if found else []
    return not any(PATCHED in (Path(place) / KERNEL).read_bytes() for place in places)
