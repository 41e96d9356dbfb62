"""What can go wrong on a booted machine. `expect_exit` is the code with which the rehearsal must end."""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.contracts import Fault
from rehearsal.stage import HasMachines
from verdict.exit_codes import ExitCode

TARGET = ("gce_flex",)
ANY = ("ec2_spot", "gce_flex")


def _switch(**switches: str) -> Callable[[HasMachines], None]:
    def apply(stage: HasMachines) -> None:
        for name, value in switches.items():
            setattr(stage.behaviour.faults, name, value)

    return apply


FAULTS = (
    Fault(
        "packages-missing",
        TARGET,
        "the package index lists files that the mirror does not have",
        _switch(packages="missing"),
        ExitCode.FAILED,
        "packages",
    ),
    Fault(
        "registry-throttled",
        TARGET,
        "the registry answers 429 to every manifest: the pull limit",
        _switch(registry="throttled"),
        ExitCode.FAILED,
        "image",
    ),
    Fault(
        "pull-cut",
        TARGET,
        "each large image layer is cut once half-way; docker goes on where it stopped",
        _switch(registry="cut"),
        ExitCode.DONE,
    ),
    Fault(
        "hub-unauthorized",
        ANY,
        "the Hub does not take the token (401)",
        _switch(hub="unauthorized"),
        ExitCode.FAILED,
        "weights",
    ),
    Fault(
        "hub-forbidden",
        ANY,
        "the Hub knows the token but its licence was not accepted (403)",
        _switch(hub="forbidden"),
        ExitCode.FAILED,
        "weights",
    ),
    Fault(
        "download-cut",
        ANY,
        "each large file of the model is cut once half-way; the download resumes",
        _switch(hub="cut"),
        ExitCode.DONE,
    ),
    Fault(
        "crash-loop",
        ANY,
        "vLLM exits while it loads, again and again",
        _switch(vllm="crash-loop"),
        ExitCode.FAILED,
        "load",
    ),
    Fault(
        "crash-at-chat",
        ANY,
        "vLLM answers /health and dies at the first chat",
        _switch(vllm="crash-at-chat"),
        ExitCode.FAILED,
        "serving",
    ),
    Fault(
        "garbage",
        ANY,
        "vLLM answers every chat without reading the question",
        _switch(vllm="garbage"),
        ExitCode.FAILED,
        "serving",
    ),
    Fault(
        "power-cut",
        TARGET,
        "the machine loses power while it downloads the image, and comes back",
        _switch(power_cut_in="image"),
        ExitCode.DONE,
    ),
    Fault(
        "disk-full",
        TARGET,
        "the boot disk fills up while the image is pulled",
        _switch(disk_full_in="image"),
        ExitCode.FAILED,
        "image",
    ),
)
