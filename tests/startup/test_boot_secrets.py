"""The token is where it is needed while it is needed, and nowhere else. The hunt is proved by planting it."""

import base64
import gzip
import os
from contextlib import suppress
from pathlib import Path

import pytest

from startup.onboard.redact import HIDDEN, Redactor
from tests.startup.specs import PLAIN
from tests.startup.world import TOKEN, World, wait_for

IDENTITY = "ya29.identity"


def hunt(world: World, out: str) -> list[str]:
    """Every place that shows one of the two tokens, in clear or in base64."""
    wanted = [TOKEN, IDENTITY, *(base64.b64encode(one.encode()).decode().rstrip("=")[:-2] for one in (TOKEN, IDENTITY))]

    def shows(data: bytes) -> bool:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        return any(one.encode() in data for one in wanted)

    places = {str(path.relative_to(world.folder)): path.read_bytes() for path in world.files()}
    places |= {"argv and environment": b"".join((world.folder / name).read_bytes() for name in ("calls.raw", "calls.jsonl"))}
    places |= {"output": out.encode(), "container": repr(world.containers()).encode()}
    return sorted(place for place, data in places.items() if shows(data))


def test_no_trace(world: World) -> None:
    world.faults(**{"token-in-log": True})  # the server itself prints it
    boot = world.boot(PLAIN)
    assert (boot.code, boot.status.state) == (0, "serving"), boot.out
    assert {row["authorization"] for row in world.asked("huggingface.co")} == {f"Bearer {TOKEN}"}
    assert {row["authorization"] for row in world.asked("cdn.huggingface.test")} == {None}  # not sent to another host
    assert HIDDEN in boot.out
    assert hunt(world, boot.out) == []


def test_no_trace_of_a_failure(world: World) -> None:
    world.faults(hub="403")
    boot = world.boot(PLAIN)
    assert boot.cause() == "hub-licence" and hunt(world, boot.out) == []


def test_it_is_readable_by_root_alone_while_it_is_there(world: World) -> None:
    world.install(PLAIN)
    world.hold("weights")
    process = world.start()
    wait_for(lambda: world.held("weights"))
    here = world.folder / "run" / "hub.header"
    assert (here.stat().st_mode & 0o777, here.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not (world.folder / "run" / "identity.header").exists()
    assert hunt(world, "") == ["run/hub.header"]
    for pid in world.processes():
        for about in ("cmdline", "environ"):
            with suppress(ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
                assert TOKEN.encode() not in Path(f"/proc/{pid}/{about}").read_bytes()
    world.kill("startup.onboard boot")
    process.wait(120)
    world.release("weights")
    boot = world.boot(PLAIN)
    assert boot.code == 0 and hunt(world, boot.out) == []


@pytest.mark.parametrize(
    "place", ["state/models/x", "run/left", "guest/state", "state/packed.gz", "calls.raw", "calls.jsonl", "output"]
)
def test_the_hunt_finds_a_planted_one(world: World, place: str) -> None:
    for name in ("calls.raw", "calls.jsonl"):
        (world.folder / name).touch()
    assert hunt(world, "") == []
    if place != "output":
        target = world.folder / place
        target.parent.mkdir(exist_ok=True, parents=True)
        encoded = base64.b64encode(TOKEN.encode()) if place.startswith("run") else TOKEN.encode()
        target.write_bytes(gzip.compress(encoded) if place.endswith(".gz") else encoded)
    assert hunt(world, TOKEN if place == "output" else "") == ["argv and environment" if place.startswith("calls") else place]


def test_redaction_remembers_what_it_has_seen(tmp_path: Path) -> None:
    header = tmp_path / "hub.header"
    redact = Redactor([header])
    assert redact("quite plain value-77") == "quite plain value-77"
    header.write_text("Authorization: Bearer value-77\n")
    assert redact("quite plain value-77") == f"quite plain {HIDDEN}"
    header.unlink()
    assert redact("still value-77") == f"still {HIDDEN}"
    header.write_text("Authorization: Bearer other-88\n")
    os.utime(header, ns=(1, 1))
    assert redact("value-77 other-88") == f"{HIDDEN} {HIDDEN}"


@pytest.mark.parametrize("text", ["token hf_abcdef123456", "ya29.a0Af_xyz-1", "Authorization: Bearer abc.def"])
def test_what_looks_like_a_token_is_hidden_anyway(text: str, tmp_path: Path) -> None:
    assert Redactor([])(text).endswith(HIDDEN) and text[-6:] not in Redactor([])(text)
