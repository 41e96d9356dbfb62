"""What a container image's own config says: for which processors it is, its CUDA, and the cards that its code is for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

CARDS = ("TORCH_CUDA_ARCH_LIST", "VLLM_CUDA_ARCH_LIST", "flexserve.cuda-arch-list")
"""Variables and labels that hold the list: the first is what torch's and vLLM's builds read; the last is ours."""
_CARD = re.compile(r"\d+\.\d+[a-z]?")


class ImageFacts(Struct, frozen=True):
    """`processors`: of the image, or all that an index of several has. `cards`: CUDA capabilities; empty where it does not say."""

    digest: str
    processors: tuple[str, ...]
    cuda: str = ""
    cards: tuple[str, ...] = ()


def of_config(digest: str, document: Mapping[str, Any]) -> ImageFacts:
    """From an image's config (OCI image specification, also Docker's). `7.5 8.0+PTX`, `7.5;8.6` are lists of cards."""
    inner = document.get("config") or {}
    said = {str(k): str(v) for k, v in (inner.get("Labels") or {}).items()}
    said |= {name: value for name, _, value in (str(item).partition("=") for item in inner.get("Env") or [])}
    cards = next((found for name in CARDS if (found := tuple(_CARD.findall(said.get(name, ""))))), ())
    return ImageFacts(digest, (str(document.get("architecture") or "unknown"),), said.get("CUDA_VERSION", ""), cards)
