"""Does it fit: memory on the accelerator, tokens in the KV cache, disk. Arithmetic on catalog rows, nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

from catalog.rows import Accelerator, Image, MachineType, Model

GIB = 1 << 30
DISK_SPARE = 0.30  # for the host's own system, logs and docker's unpacking


@dataclass(frozen=True)
class KvFit:
    """The KV cache as planned; None where the model's size is unknown. `sessions`: full-length requests at once."""

    pool_bytes: int | None
    bytes_per_token: int
    tokens: int | None
    max_model_len: int

    @property
    def fits(self) -> bool | None:
        """Whether one full-length request fits; None when it cannot be told."""
        return None if self.tokens is None else self.tokens >= self.max_model_len


def kv_bytes_per_token(model: Model, accelerator: Accelerator, element_bytes: int, chips: int = 1) -> int:
    """Bytes that one more token costs, K and V in every layer that keeps it, over all chips.

    On TPU sliding-window layers keep all tokens (measured: 18.0 KiB a token for E2B in bf16); on GPU they keep a window,
    which is a fixed amount and not counted here. With more chips than KV heads each chip keeps a copy.
    """
    return chips * sum(
        layers.count * math.ceil(layers.kv_heads / chips) * layers.head_dim * 2 * element_bytes
        for layers in model.kv_layers
        if accelerator.kv_sliding_layers == "full" or layers.sliding_window is None
    )


def kv_fit(
    model: Model, machine: MachineType, accelerator: Accelerator, utilization: float, max_model_len: int, kv_dtype: str
) -> KvFit:
    """What is left for the KV cache after the weights, which tensor parallelism spreads over all chips of the machine."""
    element = 1 if kv_dtype.startswith(("fp8", "int8")) else 2
    per_token = kv_bytes_per_token(model, accelerator, element, machine.accelerators)
    if model.resident_gib is None:
        return KvFit(None, per_token, None, max_model_len)
    pool = (accelerator.memory_gib * machine.accelerators * utilization - model.resident_gib) * GIB
    pool_bytes = max(0, math.floor(pool))
    return KvFit(pool_bytes, per_token, pool_bytes // per_token, max_model_len)


def disk_needed_gb(model: Model, image: Image | None) -> int | None:
    """Smallest boot disk in GB (10^9): unpacked image and weights, and 30 % on top. None when a size is unknown."""
    if model.weights_gb is None or image is None:
        return None
    return math.ceil((image.unpacked_gib * GIB / 1e9 + model.weights_gb) * (1 + DISK_SPARE))
