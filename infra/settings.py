"""The parts of a stack file that are the same for every target. A target adds its own in `targets/KIND/config.py`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from infra.duration import parse_seconds
from infra.shape import AfterValidator, BeforeValidator, Field, JsonValue, Settings
from verdict.secrets import SECRET_VALUE

_REVISION = re.compile(r"\w[\w./-]*", re.ASCII)
_IMAGE = re.compile(r"[^\s@:]+(:\d+/[^\s@:]+)?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?", re.ASCII)


def _revision(text: str) -> str:
    if not _REVISION.fullmatch(text):
        raise ValueError("write a branch, a tag or a commit, without blanks")
    return text


def _range(text: str) -> str:
    import ipaddress

    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("write an address range such as 35.235.240.0/20") from None
    if "/" not in text or str(network) != text:
        raise ValueError(f"write the range as {network}")
    return text


def _image(name: str) -> str:
    if not _IMAGE.fullmatch(name) and not SECRET_VALUE.search(name):  # the rule about secrets has better words
        raise ValueError("write REPOSITORY:TAG or REPOSITORY@sha256:… with 64 hexadecimal digits")
    return name


Revision = Annotated[str, AfterValidator(_revision)]
ImageName = Annotated[str, AfterValidator(_image)]
Range = Annotated[str, AfterValidator(_range)]
Medium = Literal["image", "audio", "video"]


class Model(Settings):
    """Which checkpoint."""

    name: str = Field(description="Checkpoint on the Hub, as in the catalog.")
    revision: Revision = Field("main", description="Branch, tag or commit; a branch is resolved to a commit at create and kept.")


class Image(Settings):
    """Which container image."""

    name: ImageName = Field(description="Repository, with `:tag` or `@sha256:…`; a tag is resolved to a digest at create and kept.")
    throttled_wait: Annotated[int, BeforeValidator(parse_seconds)] = Field(
        60, ge=0, le=1800, description="How long a machine goes on asking a registry that throttles it, e.g. `5m`; it bills."
    )

    @property
    def repository(self) -> str:
        """The name without tag and digest."""
        return self.name.partition("@")[0].rpartition(":")[0] if self.tag else self.name.partition("@")[0]

    @property
    def tag(self) -> str | None:
        """The tag, or None."""
        head, _, tail = self.name.partition("@")[0].rpartition(":")
        return tail if head and "/" not in tail else None

    @property
    def digest(self) -> str | None:
        """`sha256:…` when the stack file pins it."""
        return self.name.partition("@")[2] or None


class Serving(Settings):
    """How vLLM serves. Names are vLLM's own."""

    max_model_len: int = Field(65536, ge=1, description="Longest request in tokens, prompt and answer.")
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="Share of accelerator memory that vLLM may take.")
    max_num_batched_tokens: int | None = Field(4096, ge=1, description="Tokens in one step.")
    max_num_seqs: int | None = Field(None, ge=1, description="Requests in one step; vLLM's default when unset.")
    dtype: str = Field("auto", description="Weights and activations: auto, bfloat16, float16, float32.")
    kv_cache_dtype: str = Field("auto", description="KV cache: auto, bfloat16, fp8, …")
    text_only: bool = Field(
        False,
        description="Accept no images and no audio. What that frees was not measured; the plan's KV figure counts none of it.",
    )
    limit_mm_per_prompt: dict[Medium, Annotated[int, Field(ge=0)]] = Field(
        {"image": 4, "audio": 1}, description="Media items a request may carry: image, audio, video."
    )
    tool_calls: bool = Field(True, description="Parse tool calls with the model's parser.")
    reasoning: bool = Field(True, description="Parse thinking with the model's parser.")
    extra_args: dict[str, JsonValue] = Field(
        {}, description="More vLLM options, by their name without dashes; checked against those of vLLM 0.32.0, whatever is served."
    )
    environment: dict[str, str] = Field({}, description="VLLM_* variables of the container.")


class Secret(Settings):
    """The Hub token, by name. Its value is never here."""

    name: str = Field(description="Name of the secret that holds the Hub token.")
    grant: Literal["own", "existing"] = Field("own", description="Whether flexserve grants the machine read access to it.")


class Access(Settings):
    """Who may open the tunnel, and from where the port can be reached."""

    members: tuple[str, ...] = Field(description="`user:…`, `group:…` or `serviceAccount:…` that may open the tunnel.")
    source_ranges: tuple[Range, ...] = Field(
        ("35.235.240.0/20",), min_length=1, description="Ranges that reach the ports: IAP's own."
    )
    grants: Literal["own", "existing"] = Field("own", description="Whether flexserve makes the tunnel grants.")

    def together(self) -> None:
        """Somebody has to be able to open the tunnel."""
        if not self.members and self.grants == "own":
            raise ValueError("members is empty: nobody could open the tunnel; name one, or set grants to existing")


Egress = Literal["address", "nat", "existing"]
Window = Annotated[int, BeforeValidator(parse_seconds), Field(description="How long the machine may live, e.g. `4h`.")]
