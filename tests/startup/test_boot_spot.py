"""The script of a spot machine run for real, under `env -i`, against stand-ins of EC2, S3 and Secrets Manager."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest
from msgspec.structs import replace

from startup.render import render
from startup.turing import patch
from startup.turing.tree import MODULE
from startup.unit import config_hash
from tests.startup.specs import SPOT, SPOT_ANONYMOUS
from tests.startup.world import TOKEN, Boot, World
from tests.turing.shape import SOURCE

ORDER = ("host", "driver", "token", "build", "weights", "patch", "load", "compile", "serving")


@pytest.fixture(scope="module")
def used(machine: World) -> tuple[World, Boot]:
    """A machine that has booted once from a kept build, and goes on from test to test; how that boot ended."""
    keep_build(machine)
    return machine, boot(machine)


@pytest.fixture
def spot(used: tuple[World, Boot]) -> World:
    """Another machine, whose bucket holds the build; the first has left the script's Python part."""
    world, _ = used
    world.anew()
    keep_build(world)
    return world


def keep_build(world: World, kernel: str = SOURCE, arch: str = "sm_75", **wrong: object) -> None:
    assert SPOT.ec2 is not None
    folder = world.folder / "bucket" / SPOT.ec2.builds_prefix / SPOT.ec2.build_key
    folder.mkdir(parents=True, exist_ok=True)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in {
            "venv/bin/vllm": "#!/bin/sh\n",
            f"venv/lib/python3.12/site-packages/vllm/{MODULE}": kernel,
        }.items():
            about = tarfile.TarInfo(name)
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))
    (folder / "venv.tar.gz").write_bytes(data.getvalue())
    manifest: dict[str, object] = {
        "archive": "venv.tar.gz",
        "size": len(data.getvalue()),
        "sha256": hashlib.sha256(data.getvalue()).hexdigest(),
    }
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "arch_list": [arch], "vllm": "0.27.2", "torch": "2.12.0", **wrong})
    )


def boot(world: World, spec=SPOT) -> Boot:  # type: ignore[no-untyped-def]
    """What the unit of the boot runs, to its end."""
    world.install(spec)
    process = world.start("run")
    out, _ = process.communicate(timeout=240)
    return Boot(process.returncode, out, world.status(), world.reported())


def test_the_first_boot_serves(used: tuple[World, Boot]) -> None:
    """One server, and no credentials left."""
    spot, first = used
    assert (first.code, first.status.state, first.status.cause) == (0, "serving", ""), first.out
    assert first.results() == dict.fromkeys(ORDER, "done")
    assert spot.containers()[0]["label"] == config_hash(SPOT)
    assert "vllm serve /var/lib/flexserve/models/google--gemma-4-E2B-it" in spot.containers()[0]["argv"]
    assert first.reported is None  # there is no such channel: the files are read by SSM
    assert [row["argv"][1:] for row in spot.calls("swapon") if "--show" not in row["argv"][1]] == [["/var/lib/flexserve/swap"]]
    assert not {p.name for p in (spot.folder / "run").iterdir()} & {
        "hub.header",
        "imds.header",
        "aws.curl",
        "stub.curl",
        "stub.header",
    }
    patched = spot.inside("sh", "-c", f"cat /opt/flexserve/builds/*/venv/lib/python3.12/site-packages/vllm/{MODULE}")
    assert patch.check(patched.encode()).name == "patched"


def test_the_token_is_nowhere(used: tuple[World, Boot]) -> None:
    spot, done = used
    assert {row["authorization"] for row in spot.asked("huggingface.co")} == {f"Bearer {TOKEN}"}
    secrets = (TOKEN, "role-secret-key", "role-session-token==")
    for path in spot.files():
        assert not any(secret.encode() in path.read_bytes() for secret in secrets), path
    said = done.out + "".join((spot.folder / name).read_text() for name in ("calls.raw", "calls.jsonl"))
    assert not any(secret in said for secret in secrets)


def test_again_does_nothing_for_the_script_that_runs(used: tuple[World, Boot]) -> None:
    spot, _ = used
    asked = len(spot.asked("s3"))
    done = spot.start("again", render(SPOT).sha256)
    assert done.wait(60) == 0 and len(spot.asked("s3")) == asked


def test_a_second_boot_has_nothing_to_do(used: tuple[World, Boot]) -> None:
    spot, _ = used
    second = boot(spot)
    assert second.results() == {**dict.fromkeys(ORDER, "skipped"), "driver": "done", "patch": "done", "serving": "done"}
    assert len(spot.asked("secretsmanager")) == 1 and len(spot.containers()) == 1


def test_again_runs_a_changed_script_which_makes_another_server_of_it(used: tuple[World, Boot]) -> None:
    spot, _ = used
    changed = replace(SPOT, vllm_options=(*SPOT.vllm_options, "--max-num-seqs", "8"))
    sha = spot.install(changed)
    assert spot.start("again", sha).wait(120) == 0
    status = spot.status()
    assert status is not None and (status.script, status.state) == (sha, "serving")
    assert [c["label"] for c in spot.containers()] == [config_hash(changed)]


def test_a_reclaim_is_said_and_lets_nobody_new_in(used: tuple[World, Boot]) -> None:
    spot, _ = used
    spot.faults(spot="notice")
    unit = (spot.folder / "units" / "flexserve-reclaim.service").read_text()
    folder = unit.partition("WorkingDirectory=")[2].partition("\n")[0]
    spot.inside("sh", "-c", f"cd {folder} && PATH={spot.folder}/bin:$PATH exec python3 -S -E -m startup.onboard reclaim")
    status = spot.status()
    assert status is not None
    assert (status.state, status.cause) == ("reclaimed", "reclaimed at 03:04 UTC: EC2 takes the spot machine back (terminate)")
    (refused,) = spot.calls("iptables")
    assert "--syn" in refused["argv"] and "8000" in refused["argv"]


def test_units_are_made_once_and_the_end_is_absolute(spot: World) -> None:
    spot.install(SPOT)
    assert spot.start().wait(60) == 0
    timer = (spot.folder / "units" / "flexserve-deadline.timer").read_text()
    assert "OnCalendar=2026-11-30 00:53:20 UTC\n" in timer and "Persistent=true" in timer
    assert "poweroff" in (spot.folder / "units" / "flexserve-deadline.service").read_text()
    started = [row["argv"][1:] for row in spot.calls("systemctl")]
    assert ["enable", "--now", "flexserve-deadline.timer"] in started and [
        "start",
        "--no-block",
        "flexserve-boot.service",
    ] in started
    assert not spot.asked("s3")  # the boot itself is the unit's


@pytest.mark.parametrize(
    ("faults", "phase", "cause"),
    [({"swap": "refused"}, "host", "swap-refused"), ({"server": "shared-memory"}, "load", "shared-memory")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_fails_a_boot(spot: World, faults: dict[str, str], phase: str, cause: str) -> None:
    spot.faults(**faults)
    done = boot(spot)
    assert (done.code, done.status.state, done.status.phase, done.cause()) == (1, "failed", phase, cause), done.out


@pytest.mark.parametrize(
    ("faults", "phase", "cause"),
    [
        ({"driver": "other-card"}, "driver", "wrong-gpu"),
        ({"secret": "empty"}, "token", "secret-empty"),
        ({"secret": "two-lines"}, "token", "secret-malformed"),
        ({"secret": "disabled"}, "token", "secret-disabled"),
        ({"secret": "permission"}, "token", "aws-secret-permission"),
        ({"bucket": "damaged"}, "build", "build-damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_failures_by_name(spot: World, faults: dict[str, str], phase: str, cause: str) -> None:
    """The phase ends by itself, long before its limit."""
    spot.faults(**faults)
    done = spot.phase(SPOT, phase)
    assert (done.code, done.cause()) == (1, cause), done.out


def test_builds_that_do_not_fit(spot: World) -> None:
    assert SPOT.ec2 is not None
    (spot.folder / "bucket" / SPOT.ec2.builds_prefix / SPOT.ec2.build_key / "manifest.json").unlink()
    assert spot.phase(SPOT, "build").cause() == "no-build"
    keep_build(spot, arch="sm_80")
    assert spot.phase(SPOT, "build").cause() == "build-without-arch"
    keep_build(spot, sha256=None)
    assert spot.phase(SPOT, "build").cause() == "build-damaged"
    keep_build(spot, kernel="def unified_attention(): ...\n")
    assert spot.phase(SPOT, "build").code == 0
    assert boot(spot).cause() == "patch-refused"


@pytest.mark.parametrize(
    ("faults", "phase"),
    [
        ({"identity": "late"}, "token"),
        ({"bucket": "cut"}, "build"),
        ({"driver": "late"}, "driver"),
        ({"secret": "console"}, "token"),
    ],
    ids=str,
)
def test_what_passes_by_itself(spot: World, faults: dict[str, str], phase: str) -> None:
    spot.faults(**faults)
    done = spot.phase(SPOT, phase)
    assert done.code == 0, done.out
    if phase == "token":
        assert (spot.folder / "run" / "hub.header").read_text().strip() == f"Authorization: Bearer {TOKEN}"


def test_a_grant_that_comes_late_is_waited_for(spot: World) -> None:
    spot.faults(secret="permission-late")
    done = spot.phase(SPOT, "token")
    assert done.code == 0, done.out
    assert "again in 1 s: aws-secret-permission: fs-k3j9x2 may not read secret hf-token" in done.out


def test_no_secret_no_question(spot: World) -> None:
    done = boot(spot, SPOT_ANONYMOUS)
    assert done.code == 0 and "token" not in done.results() and not spot.asked("secretsmanager"), done.out
