"""The shapes of the catalog's rows. A row without source, date and evidence does not load."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Evidence = Literal["measured", "documented", "inferred", "claimed"]


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact: where it comes from, when, and how sure it is."""

    source: Annotated[str, Meta(min_length=1)]
    date: datetime.date
    evidence: Evidence


class Accelerator(Row, frozen=True, kw_only=True):
    """A chip. Memory is what a program sees, in GiB; `kv_sliding_layers`: what a sliding-window layer's cache holds.

    `reserve_gib`: what vLLM takes a chip beside a model's `resident_gib`. `capability`: CUDA's, empty on other chips.
    `attention_backends`: those that work, the first is asked for; empty where vLLM chooses well by itself. `encoder_backends`:
    the same for the encoders of images and sound, none of which is asked for. `oldest_vllm`: the first release that serves on it,
    empty where none was found too old.
    """

    name: str
    title: str
    memory_gib: float
    bandwidth_gb_s: float
    dtypes: tuple[str, ...]
    quantization: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]
    kv_sliding_layers: Literal["full", "window"]
    reserve_gib: float = 0.0
    capability: str = ""
    attention_backends: tuple[str, ...] = ()
    encoder_backends: tuple[str, ...] = ()
    oldest_vllm: str = ""


class MachineType(Row, frozen=True, kw_only=True):
    """A machine that a cloud rents out; `accelerators` is the number of chips.

    `service`: which of the cloud's services rents it out, where it is not the one for plain machines. `local_disk_gb`: the disk
    that comes with the machine (10^9 bytes), 0 where a disk is chosen. `processor`: as container images name it.
    """

    name: str
    cloud: str
    accelerator: str
    accelerators: int
    vcpu: int
    memory_gib: float
    disk_types: tuple[str, ...]
    service: str = ""
    local_disk_gb: int = 0
    processor: str = "amd64"


class BuilderType(Row, frozen=True, kw_only=True):
    """A machine without an accelerator that a cloud rents out, to make a server's build on."""

    name: str
    cloud: str
    vcpu: int
    memory_gib: float


class DiskType(Row, frozen=True, kw_only=True):
    """A kind of boot disk, and how large the cloud makes one, in GB as the cloud counts them."""

    name: str
    cloud: str
    max_gb: int


class Provisioning(Row, frozen=True, kw_only=True):
    """A way of asking for a machine, and how long it may run, in seconds."""

    name: str
    cloud: str
    window_min_s: int
    window_max_s: int


class Boot(Row, frozen=True, kw_only=True):
    """How long a recorded start of a target took, in seconds; `part`: `boot`, or what came before it (`image`: its build)."""

    target: str
    part: str
    seconds: int


class Zone(Row, frozen=True, kw_only=True):
    """A place where accelerators can be asked for in these ways; `machine_types` where not all sizes are there."""

    name: str
    cloud: str
    provisioning: tuple[str, ...]
    accelerators: tuple[str, ...]
    machine_types: tuple[str, ...] = ()


class Price(Row, frozen=True, kw_only=True):
    """US dollars a unit. No regions means everywhere, no provisioning means any."""

    item: str
    provisioning: str
    regions: tuple[str, ...]
    unit: Literal["accelerator-hour", "hour", "gib", "gib-month", "unit-month"]
    usd: float


class KvLayers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of equal layers that own a KV cache; `sliding_window` in tokens, None for full attention."""

    count: int
    kv_heads: int
    head_dim: int
    sliding_window: int | None = None


class Model(Row, frozen=True, kw_only=True):
    """A checkpoint. `weights_gb` (10^9 bytes) is the download; `resident_gib` what it takes on the accelerator; None is unknown.

    `query_heads` is the number in a layer; divided by its KV heads it is the group that attention works on at once.
    `reserve_gib`: by accelerator, what vLLM was measured to take beside the weights for this model, where that is not the
    accelerator's own figure. `oldest_vllm`: the first release that reads it, empty where none was found too old.
    """

    name: str
    title: str
    licence: str
    gated: bool
    chat: bool
    modalities: tuple[str, ...]
    quantization: str
    unquantized: str | None = None
    weights_gb: float | None = None
    resident_gib: float | None = None
    context: int
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    query_heads: int | None = None
    reserve_gib: Mapping[str, float] = field(default_factory=dict)
    oldest_vllm: str = ""
    kv_layers: tuple[KvLayers, ...]


class Image(Row, frozen=True, kw_only=True):
    """A container image with vLLM in it; sizes in GiB. `{region}` in a repository stands for any region's name.

    `cuda`: of the image; `kernels`: the CUDA capabilities that its torch has kernels for, empty unknown.
    """

    repository: str
    tag: str
    vllm: str
    accelerators: tuple[str, ...]
    compressed_gib: float
    unpacked_gib: float
    cuda: str = ""
    kernels: tuple[str, ...] = ()


class HostImage(Row, frozen=True, kw_only=True):
    """A machine image to boot from; the family is resolved to an image at create and then kept.

    `family` is a family's name, or on AWS the public parameter that names the newest one. `root_gb`: its own disk, None unknown.
    `torch`, `cuda` and `python` are what it brings along for a server that is built on it; empty where it brings none.
    `build_minutes`: how long that server took to compile with `build_jobs` compilers at a time; 0 unknown. `driver`: the version
    of the accelerator's driver, empty unknown.
    """

    project: str
    family: str
    cloud: str
    accelerators: tuple[str, ...]
    has_docker: bool
    root_gb: int | None = None
    torch: str = ""
    cuda: str = ""
    python: str = ""
    build_minutes: int = 0
    build_jobs: int = 0
    driver: str = ""
