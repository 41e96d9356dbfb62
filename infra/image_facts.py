"""What a container image's own config says: for which processors it is, its CUDA, its cards, and what flexserve put in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from verdict.errors import FlexserveError

CARDS = ("TORCH_CUDA_ARCH_LIST", "VLLM_CUDA_ARCH_LIST", "flexserve.cuda-arch-list")
"""Variables and labels that hold the list: the first is what torch's and vLLM's builds read; the last is ours."""
CUDA = ("CUDA_VERSION", "NV_CUDA_LIB_VERSION")
"""Variables that NVIDIA's base images set, and what is built from them inherits: `13.0.2`, `13.0.2-1`."""
CHECKED, TURING, SECRET = "flexserve.card", "flexserve.turing", "flexserve.secret"
"""Labels of an image that flexserve built (templates/sagemaker/Dockerfile.j2): the card that torch was held against while it was
built, the version of the Turing patch, and that its entry point reads a secret by its name."""
_CARD = re.compile(r"\d+\.\d+[a-z]?")
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_REQUIRED = re.compile(r"\bcuda>=(\d+\.\d+)")


class ImageFacts(Struct, frozen=True):
    """`processors`: of the image, or all that an index of several has. `cards`: CUDA capabilities; empty where it does not say.

    `checked`: cards that flexserve's build looked for in torch. `turing`: the version of its patch in it. `secret`: its wrapper.
    """

    digest: str
    processors: tuple[str, ...]
    cuda: str = ""
    cards: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    turing: str = ""
    secret: bool = False

    def text(self) -> str:
        """The form that the state keeps."""
        return msgspec.json.encode(self).decode()


def from_text(text: str) -> ImageFacts:
    """Read what `text` made. Raises `FlexserveError` for another shape."""
    try:
        return msgspec.json.decode(text, type=ImageFacts)
    except msgspec.MsgspecError as error:
        raise FlexserveError("what was kept of the image's config cannot be read", why=str(error)) from error


def of_config(digest: str, document: Mapping[str, Any]) -> ImageFacts:
    """From an image's config (OCI image specification, also Docker's). `7.5 8.0+PTX`, `7.5;8.6` are lists of cards."""
    inner = document.get("config") or {}
    labels = {str(k): str(v) for k, v in (inner.get("Labels") or {}).items()}
    said = labels | {name: value for name, _, value in (str(item).partition("=") for item in inner.get("Env") or [])}
    cards = next((found for name in CARDS if (found := tuple(_CARD.findall(said.get(name, ""))))), ())
    return ImageFacts(
        digest,
        (str(document.get("architecture") or "unknown"),),
        _cuda(said),
        cards,
        tuple(_CARD.findall(labels.get(CHECKED, ""))),
        labels.get(TURING, ""),
        bool(labels.get(SECRET)),
    )


def _cuda(said: Mapping[str, str]) -> str:
    """The version; else the one that the image asks of the driver, which NVIDIA's images put on the same release."""
    for name in CUDA:
        if found := _VERSION.match(said.get(name, "")):
            return found[0]
    required = _REQUIRED.search(said.get("NVIDIA_REQUIRE_CUDA", ""))
    return required[1] if required else ""
