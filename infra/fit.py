"""Does it fit: memory on the accelerator, tokens in the KV cache, disk. Arithmetic on catalog rows, nothing else."""

from __future__ import annotations

import math

from msgspec import Struct

from catalog.rows import Accelerator, KvLayers, MachineType, Model

GIB = 1 << 30
DISK_SPARE = 0.30  # for the host's own system, logs and docker's unpacking


class KvFit(Struct, frozen=True):
    """The KV cache as planned; None where the model's size is unknown.

    `bytes_per_token` is the average over a request of full length; `longest`: the longest request that fits, up to the model's own.
    """

    pool_bytes: int | None
    bytes_per_token: int
    tokens: int | None
    max_model_len: int
    longest: int | None = None

    @property
    def fits(self) -> bool | None:
        """Whether one full-length request fits; None when it cannot be told."""
        return None if self.tokens is None else self.tokens >= self.max_model_len


def kv_bytes_per_token(model: Model, accelerator: Accelerator, element_bytes: int, chips: int = 1) -> int:
    """Bytes that one more token costs, K and V in every layer that keeps it, over all chips.

    On TPU sliding-window layers keep all tokens (measured: 18.0 KiB a token for E2B in bf16); on GPU they keep a window, see
    `kv_window_bytes`. With more chips than KV heads each chip keeps a copy.
    """
    return chips * sum(
        _layer_bytes(layers, element_bytes, chips)
        for layers in model.kv_layers
        if accelerator.kv_sliding_layers == "full" or layers.sliding_window is None
    )


def kv_window_bytes(
    model: Model, accelerator: Accelerator, element_bytes: int, chips: int, max_model_len: int, batched_tokens: int | None
) -> int:
    """Bytes that the sliding-window layers hold for one request, however long: the window and one step's tokens.

    `batched_tokens` None: vLLM chooses, and a whole request is counted. Source: vLLM's own sizing of such layers; with 512 and
    4,096 tokens and a length of 16,384 it gives the 329,579 tokens in 2.95 GiB that were measured on a T4G.
    """
    if accelerator.kv_sliding_layers == "full":
        return 0
    step = max_model_len if batched_tokens is None else batched_tokens
    return chips * sum(
        _layer_bytes(layers, element_bytes, chips) * min(max_model_len, layers.sliding_window - 1 + step)
        for layers in model.kv_layers
        if layers.sliding_window is not None
    )


def kv_fit(
    model: Model,
    machine: MachineType,
    accelerator: Accelerator,
    utilization: float,
    max_model_len: int,
    kv_dtype: str,
    batched_tokens: int | None = None,
) -> KvFit:
    """What is left for the KV cache after the weights, which tensor parallelism spreads over all chips of the machine.

    Tokens are counted as vLLM counts them: full-length requests that fit, times their length.
    """
    element, chips = 1 if kv_dtype.startswith(("fp8", "int8")) else 2, machine.accelerators
    per_token = kv_bytes_per_token(model, accelerator, element, chips)
    window = kv_window_bytes(model, accelerator, element, chips, max_model_len, batched_tokens)
    request = per_token * max_model_len + window
    average = math.ceil(request / max_model_len)
    if model.resident_gib is None:
        return KvFit(None, average, None, max_model_len)
    reserve = model.reserve_gib.get(accelerator.name, accelerator.reserve_gib)
    pool = ((accelerator.memory_gib * utilization - reserve) * chips - model.resident_gib) * GIB
    pool_bytes = max(0, math.floor(pool))
    longest = _longest(model, accelerator, element, chips, batched_tokens, pool_bytes)
    return KvFit(pool_bytes, average, pool_bytes * max_model_len // request, max_model_len, longest)


def disk_needed_gb(model: Model, image_gib: float | None, beside_gb: float = 0.0) -> int | None:
    """Smallest boot disk in GB (10^9): unpacked image, weights, what else lies there, and 30 %. None when a size is unknown.

    `image_gib` is 0 where the server comes from no image, None where the image's size is unknown.
    """
    if model.weights_gb is None or image_gib is None:
        return None
    return math.ceil((image_gib * GIB / 1e9 + model.weights_gb + beside_gb) * (1 + DISK_SPARE))


def _layer_bytes(layers: KvLayers, element_bytes: int, chips: int) -> int:
    """Bytes a token and chip of a group of layers: K and V."""
    return layers.count * math.ceil(layers.kv_heads / chips) * layers.head_dim * 2 * element_bytes


def _longest(model: Model, accelerator: Accelerator, element: int, chips: int, batched_tokens: int | None, pool: int) -> int:
    """The longest request that the pool holds. What a request costs grows with its length, so halving finds it."""
    per_token = kv_bytes_per_token(model, accelerator, element, chips)
    low, high = 0, model.context
    while low < high:
        middle = (low + high + 1) // 2
        need = per_token * middle + kv_window_bytes(model, accelerator, element, chips, middle, batched_tokens)
        low, high = (middle, high) if need <= pool else (low, middle - 1)
    return low
