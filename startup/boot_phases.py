"""The phases of a boot as rows: what each does, waits for, and when it is skipped. Script and docs are made from them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class PhaseRow(Struct, frozen=True):
    """One phase. A need that a boot does not have (token, when there is no secret) is left out."""

    name: str
    about: str
    needs: tuple[str, ...]
    skipped: str


_MARKED = "it was done before"
PHASES: Mapping[str, PhaseRow] = {
    row.name: row
    for row in (
        PhaseRow("host", "swap, no automatic upgrades, the watcher for a reclaim", (), "it was done in this boot"),
        PhaseRow("driver", "wait for the accelerator's driver, check that it is the card of the plan", (), "never"),
        PhaseRow("packages", "install Docker, hold its packages, turn automatic upgrades off", (), "it was done before"),
        PhaseRow("docker", "start Docker, wait until it answers", ("packages",), "`docker info` works"),
        PhaseRow("token", "fetch the Hub token from Secret Manager as the machine's own identity", (), "the weights are complete"),
        PhaseRow(
            "build",
            "take the kept build of vLLM from the bucket, check and unpack it; or make it, where the stack says so (then 7200 s)",
            ("driver",),
            "it is unpacked",
        ),
        PhaseRow("patch", "apply the Turing patch to the build, check it", ("build",), "never"),
        PhaseRow("image", "pull the container image by digest", ("docker",), "the image is there"),
        PhaseRow(
            "weights",
            "download the model's files at the pinned revision, check them",
            ("token", "driver"),
            "the weights are complete",
        ),
        PhaseRow(
            "load",
            "start the server, wait until its weights are on the accelerator",
            ("image", "host", "patch", "weights"),
            "a server of the same configuration serves",
        ),
        PhaseRow("compile", "wait until the server has compiled", ("load",), "a server of the same configuration serves"),
        PhaseRow("serving", "ask for an answer that holds a nonce", ("compile",), "never"),
        PhaseRow(
            "checks", "builder: processor, the image's torch, room, and that the bucket takes the build", (), "the build is made"
        ),
        PhaseRow("toolkit", "builder: CUDA's compiler of torch's version, git, a C compiler", ("checks",), _MARKED),
        PhaseRow("source", "builder: vLLM at exactly the commit", ("checks", "toolkit"), _MARKED),
        PhaseRow("rust", "builder: Rust of the release's own channel", ("source",), _MARKED),
        PhaseRow("venv", "builder: a virtual environment on the image's torch", ("source",), _MARKED),
        PhaseRow("wheel", "builder: compile", ("toolkit", "rust", "venv"), _MARKED),
        PhaseRow("install", "builder: install it with what it needs", ("wheel",), _MARKED),
        PhaseRow("keep", "builder: load it, check its cards, pack it, put it into the bucket", ("install",), "the bucket has it"),
    )
}


def needs_of(name: str, declared: tuple[str, ...]) -> tuple[str, ...]:
    """What `name` waits for in a boot that has the phases `declared`."""
    return tuple(need for need in PHASES[name].needs if need in declared)
