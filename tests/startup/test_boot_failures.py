"""Each thing that can be broken, by name: the phase, the cause, what the operator can do. Rows of one group share a machine."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.startup.specs import ANONYMOUS, PLAIN
from tests.startup.world import Boot, World, served

Row = tuple[dict[str, Any], str, str, str]  # faults, phase, cause, words of it

TOKEN: list[Row] = [
    ({"secret": "empty"}, "token", "secret-empty", "secret hf-token is empty; flexserve secret put hf-token"),
    ({"secret": "two-lines"}, "token", "secret-malformed", "hf-token"),
    ({"secret": "scope"}, "token", "secret-scope", "access scopes"),
    ({"secret": "disabled"}, "token", "secret-disabled", "disabled or destroyed"),
]
WEIGHTS: list[Row] = [
    ({"hub": "401"}, "weights", "hub-unauthorized", "secret hf-token"),
    ({"hub": "403"}, "weights", "hub-licence", "https://huggingface.co/google/gemma-4-E2B-it"),
    ({"hub": "404"}, "weights", "hub-not-found", PLAIN.model_revision or ""),
    ({"hub": "corrupt"}, "weights", "weights-corrupt", "of-00002.safetensors"),
    ({"hub": "escape"}, "weights", "the Hub lists a file named '../../etc/passwd', which is no name inside a folder", ""),
]
IMAGE: list[Row] = [
    ({"pull": "no-space"}, "image", "no-space", "target.disk_gb"),
    ({"pull": "not-found"}, "image", "image-not-found", "image.name"),
    ({"pull": "denied"}, "image", "image-denied", "public image"),
    ({"pull": "429"}, "image", "image-pull-limit", "(asked for 60 s, image.throttled_wait)"),
]
SERVER: list[Row] = [
    ({"server": "bad-flag"}, "load", "bad-flag", "unrecognized arguments: --no-such-flag"),
    ({"server": "kv-cache-too-small"}, "load", "kv-cache-too-small", "set serving.max_model_len to 5632 or less"),
    ({"server": "out-of-memory"}, "load", "out-of-memory", "max_model_len"),
    ({"server": "unsupported-quantization"}, "load", "unsupported-quantization", "unquantized"),
    ({"server": "crash-loop"}, "load", "crash-loop", "SomethingOddError: nobody has seen this before"),
    ({"server": "accelerator-busy"}, "load", "accelerator-busy", "/dev/vfio/0"),
    ({"run": "refused"}, "load", "container-refused", "invalid mount config"),
    ({"server": "chat-crash"}, "serving", "chat-crash", "the first question was too much"),
    ({"chat": "wrong"}, "serving", "chat-wrong", "the the of of"),
]


def check(boot: Boot, row: Row) -> list[str]:
    """What is not as the row says."""
    _, phase, cause, text = row
    said = (boot.code, boot.status.state, boot.status.phase, boot.cause())
    failed = [one for one in boot.status.phases if one.result == "failed"]
    wrong = [] if said == (1, "failed", phase, cause) else [f"{row}: {said}\n{boot.out}"]
    wrong += [] if text in boot.status.cause else [f"{row}: {boot.status.cause}"]
    wrong += [] if [one.name for one in failed] == [phase] and failed[0].log_tail else [f"{row}: {failed}"]
    return wrong + ([] if boot.reported == boot.status else [f"{row}: the cloud was told {boot.reported}"])


@pytest.mark.parametrize("group", [TOKEN + WEIGHTS, IMAGE], ids=["token and weights", "image"])
def test_downloads(world: World, group: list[Row]) -> None:
    wrong = []
    for row in group:
        world.faults(**row[0])
        wrong += check(world.boot(PLAIN), row)
        assert not world.calls("docker", "run")
    world.faults(hub="corrupt-once")
    last = world.boot(PLAIN)
    assert (last.code, last.status.state) == (0, "serving"), last.out
    assert wrong == []


def test_server(world: World) -> None:
    assert world.boot(PLAIN).code == 0
    wrong = []
    for turn, row in enumerate(SERVER):
        world.faults(**row[0])
        boot = world.boot(replace(PLAIN, vllm_options=(*PLAIN.vllm_options, "--seed", str(turn))))
        wrong += check(boot, row)
        states = [one["status"] for one in world.containers()]
        if row[2] not in ("chat-wrong", "container-refused") and states != ["exited"]:
            wrong.append(f"{row}: containers {states}: one that crashes is stopped, not restarted for ever")
    world.faults()
    last = world.boot(PLAIN)
    assert (last.code, last.status.state) == (0, "serving"), last.out
    assert wrong == []


def test_a_busy_accelerator_is_tried_once_more(world: World) -> None:
    world.faults(server=["accelerator-busy"])
    boot = world.boot(PLAIN)
    assert (boot.code, boot.status.state) == (0, "serving"), boot.out
    served(world, 2)
    assert [row["argv"][1] for row in world.calls("docker") if row["argv"][1] in ("stop", "rm", "run")] == [
        "run",
        "stop",
        "rm",
        "run",
    ]


def test_anonymous_and_closed(world: World) -> None:
    world.faults(hub="gated")
    boot = world.boot(ANONYMOUS)
    row: Row = (
        {"hub": "gated"},
        "weights",
        "hub-needs-token",
        "accept its licence at https://huggingface.co/google/gemma-4-E2B-it and set secret.name",
    )
    assert check(boot, row) == []


def test_packages_and_docker(world: World) -> None:
    world.faults(apt="no-package")
    assert check(world.boot(PLAIN), ({}, "packages", "apt-no-package", "docker.io")) == []
    world.faults(apt="missing")
    missing = "lists docker.io_20.10_amd64.deb and does not have it"
    assert check(world.boot(PLAIN), ({}, "packages", "apt-missing", missing)) == []
    assert len([row for row in world.calls("apt-get") if "update" in row["argv"]]) == 6  # once, and five tries: each asks anew
    world.faults(docker="down")
    boot = world.boot(PLAIN)
    assert check(boot, ({}, "docker", "docker-down", "does not start")) == []
    assert "failed to start daemon" in boot.status.phases[-1].log_tail or any(
        "failed to start" in p.log_tail for p in boot.status.phases
    )
