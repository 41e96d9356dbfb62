"""What can be made to go wrong on the machine's side, and the time that stand-ins hold. Both may change while a machine lives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class MachineFaults:
    """Switches; empty means in order. `*_in` names a boot phase: it happens when that phase reports that it runs.

    | switch | values |
    | --- | --- |
    | packages | down: connections are reset; missing: the index lists files that are not there |
    | registry | down; throttled: 429 on manifests; cut: each large layer is reset once half-way |
    | hub | down; throttled: 429 to all; throttled-anonymous: 429 without a token; unauthorized: 401; forbidden: 403 on files; \
slow; cut: each large file is reset once half-way |
    | torch | no-sm75: the host image's torch has no code for the card |
    | source | other-commit: vLLM's repository gives another commit than was asked for |
    | compiler | error: it refuses a file |
    | driver | down: nvidia-smi fails; other-card: a T4 in place of the T4G |
    | vllm | crash-loop: exits 1 while it loads; never-ready: loads for ever; crash-at-chat: dies at the first chat; \
garbage: answers without reading the question; empty: answers nothing; out-of-memory: dies with CUDA's words once the \
weights are read |
    """

    packages: Literal["", "down", "missing"] = ""
    registry: Literal["", "down", "throttled", "cut"] = ""
    hub: Literal["", "down", "throttled", "throttled-anonymous", "unauthorized", "forbidden", "slow", "cut"] = ""
    vllm: Literal["", "crash-loop", "never-ready", "crash-at-chat", "garbage", "empty", "out-of-memory"] = ""
    driver: Literal["", "down", "other-card"] = ""
    torch: Literal["", "no-sm75"] = ""
    source: Literal["", "other-commit"] = ""
    compiler: Literal["", "error"] = ""
    power_cut_in: str = ""
    docker_dies_in: str = ""
    disk_full_in: str = ""

    def switches(self) -> Mapping[str, str]:
        """All of them by name, for the stand-ins."""
        return {field.name: str(getattr(self, field.name)) for field in dataclasses.fields(self)}


@dataclass
class Behaviour:
    """What the stand-ins are asked to do. `holds` is seconds by what is held, already divided by the rehearsal's k.

    Held: packages, image, weights (the first large transfer of each power-on), load, compile (vLLM's start), wheel (a builder's).
    """

    faults: MachineFaults = field(default_factory=MachineFaults)
    holds: dict[str, float] = field(default_factory=dict)
    gated_models: list[str] = field(default_factory=list)
    hub_tokens_sha256: list[str] = field(default_factory=list)

    def document(self) -> Mapping[str, object]:
        """The same as the stand-ins read it."""
        hub = {"gated": self.gated_models, "tokens": self.hub_tokens_sha256}
        return {"faults": self.faults.switches(), "holds": self.holds, "hub": hub}
