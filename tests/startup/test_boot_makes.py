"""A spot machine that makes the build itself: torch, toolkit, git, Rust and pip are stand-ins, nothing is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from startup.onboard import keeping
from startup.onboard.build import Kept
from startup.onboard.jobs import GIB, jobs
from startup.onboard.places import SKIPPED
from startup.spec import BootSpec
from startup.turing import patch
from startup.turing.tree import MODULE
from tests.startup.specs import MAKES, SPOT
from tests.startup.test_boot_spot import ORDER, boot, keep_build
from tests.startup.world import TOKEN, Phase, World, wait_for
from tests.turing.shape import SOURCE

assert MAKES.ec2 is not None and MAKES.ec2.recipe is not None
FOLDER = f"bucket/{MAKES.ec2.builds_prefix}{MAKES.ec2.build_key}"
PLACE = f"/opt/flexserve/builds/{MAKES.ec2.build_key}"
COMMIT = MAKES.ec2.recipe.commit
CREDENTIALS = (TOKEN, "role-secret-key", "role-session-token==", "imds-session==")


@pytest.fixture
def maker(machine: World) -> World:
    """A world whose bucket is empty, on the deep learning image, where a boot has written the script's Python part."""
    if not (machine.folder / "run" / "lib").exists():
        boot(machine, MAKES)
    machine.anew()
    (machine.folder / "kernel").write_text(SOURCE)
    (machine.folder / "kernel-place").write_text(str(MODULE))
    python = machine.folder / "bin" / "git"
    machine.inside("sh", "-c", f"mkdir -p /opt/pytorch/bin && cp {python} /opt/pytorch/bin/python")
    return machine


def wheels(world: World) -> list[str]:
    """The compilations: the words of each as `env` had them, with the environment."""
    raw = (world.folder / "calls.raw").read_text(errors="replace")
    return [part for part in raw.split("\npython -m pip ") if part.startswith("wheel ")]


def build(world: World, spec: BootSpec = MAKES) -> Phase:
    """The phase that makes it, alone."""
    return world.phase(spec, "build")


def test_made_kept_and_taken_by_the_next(maker: World) -> None:
    made = boot(maker, MAKES)
    assert (made.code, made.status.state, made.results()) == (0, "serving", dict.fromkeys(ORDER, "done")), made.out
    files = {path.name: path for path in (maker.folder / FOLDER).iterdir()}
    manifest = json.loads(files.pop("manifest.json").read_text())
    assert set(files) == {manifest["archive"]} and files[manifest["archive"]].stat().st_size == manifest["size"]
    told = {name: manifest[name] for name in ("vllm", "commit", "torch", "cuda", "python", "arch_list")}
    assert told == {
        **{"vllm": "0.27.2rc0", "commit": COMMIT, "torch": "2.12.0+cu132", "cuda": "13.2", "python": "3.12"},
        "arch_list": ["sm_75"],
    }
    puts = [row["path"] for row in maker.asked("s3") if row["method"] == "PUT"]
    assert [path.rpartition("/")[2] for path in puts] == [manifest["archive"], "manifest.json"]

    (environment,) = wheels(maker)
    for setting in ('TORCH_CUDA_ARCH_LIST="7.5"', 'CUDA_HOME="/usr/local/cuda-13.2"', "MAX_JOBS=", 'VLLM_TARGET_DEVICE="cuda"'):
        assert setting in environment
    assert [row["argv"][-1] for row in maker.calls("git") if "fetch" in row["argv"]] == [COMMIT]
    assert any("cuda-toolkit-13-2" in row["argv"] for row in maker.calls("apt-get"))
    assert maker.calls("rustup")[0]["argv"][-2:] == ["--default-toolchain", "1.95"]
    assert {row["path"].split("/")[5] for row in maker.asked("developer.download.nvidia.com")} == {"sbsa"}
    assert not maker.inside("sh", "-c", f"ls -d {PLACE}.making")
    for path in (*maker.files(), *(maker.folder / FOLDER).iterdir()):
        assert not any(secret.encode() in path.read_bytes() for secret in CREDENTIALS), path
    said = made.out + "".join((maker.folder / name).read_text(errors="replace") for name in ("calls.raw", "calls.jsonl"))
    assert not any(secret in said for secret in CREDENTIALS)

    assert build(maker).code == SKIPPED and len(wheels(maker)) == 1

    maker.inside("rm", "-rf", PLACE, "/opt/pytorch")  # another machine, whose rights are those of one that makes none
    other = boot(maker, SPOT)
    assert (other.code, other.results()["build"]) == (0, "done"), other.out
    assert len(wheels(maker)) == 1
    patched = maker.inside("cat", f"{PLACE}/venv/lib/python3.12/site-packages/vllm/{MODULE}")
    assert patch.check(patched.encode()).name == "patched"


def test_what_cannot_be_made_fails_the_boot(maker: World) -> None:
    maker.faults(machine="x86")
    done = boot(maker, MAKES)
    assert (done.code, done.status.phase, done.cause()) == (1, "build", "build-other-machine"), done.out
    assert not wheels(maker) and not (maker.folder / FOLDER).exists()


def test_one_that_is_kept_is_taken(maker: World) -> None:
    keep_build(maker)
    assert build(maker).code == 0
    assert not wheels(maker) and not maker.calls("git")


@pytest.mark.parametrize("where", ["toolkit", "source", "wheel"])
def test_cut_off_and_run_again(maker: World, where: str) -> None:
    """A power cut: the next run does that step, and not those before it."""
    maker.hold(where)
    maker.install(MAKES)
    process = maker.start_phase(MAKES, "build")
    wait_for(lambda: maker.held(where))
    before = len(maker.calls("git"))
    maker.kill()
    process.wait(60)
    maker.release(where)
    done = build(maker)
    assert done.code == 0, done.out
    assert (maker.folder / FOLDER / "manifest.json").exists()
    if where == "wheel":
        assert len(maker.calls("git")) == before and len(wheels(maker)) == 2
    assert len([row for row in maker.calls("apt-get") if "cuda-toolkit-13-2" in row["argv"]]) == (2 if where == "toolkit" else 1)


@pytest.mark.parametrize(
    ("faults", "cause", "compiled"),
    [
        ({"torch": "broken"}, "build-no-torch", 0),
        ({"torch": "cpu"}, "build-torch-cpu", 0),
        ({"torch": "newer"}, "build-torch-other", 0),
        ({"torch": "newer-cuda"}, "build-torch-other", 0),
        ({"torch": "newer-python"}, "build-torch-other", 0),
        ({"nvcc": "other"}, "build-no-nvcc", 0),
        ({"git": "unreachable"}, "build-source-unreachable", 0),
        ({"git": "no-commit"}, "build-commit", 0),
        ({"git": "old-release"}, "build-unknown-release", 0),
        ({"compiled": "broken"}, "build-does-not-load", 1),
        ({"compiled": "other-torch"}, "build-torch-other", 1),
    ],
    ids=lambda value: str(value),
)
def test_failures_by_name(maker: World, faults: dict[str, str], cause: str, compiled: int) -> None:
    """What can be known before compiling is. The same steps fail a builder's boot in `test_boot_builder`, by other names."""
    maker.faults(**faults)
    done = build(maker)
    assert (done.code, done.cause()) == (1, cause), done.out
    assert len(wheels(maker)) == compiled
    assert not (maker.folder / FOLDER).exists()  # nothing half is kept


def test_memory_that_does_not_do(maker: World) -> None:
    """Half as many at a time, down to one; where one is too many it is said."""
    maker.faults(wheel="killed")
    maker.inside("sh", "-c", f"mkdir -p {PLACE}.making && echo 3 >{PLACE}.making/jobs")
    done = build(maker)
    assert done.cause() == "build-memory", done.out
    assert [part.partition("MAX_JOBS=")[2][1] for part in wheels(maker)] == ["3", "1"]
    maker.faults()
    assert build(maker).code == 0
    assert wheels(maker)[-1].partition("MAX_JOBS=")[2][1] == "1"  # what was learnt is kept


def test_a_disk_without_room(maker: World) -> None:
    assert MAKES.ec2 is not None and MAKES.ec2.recipe is not None
    vast = replace(MAKES, ec2=replace(MAKES.ec2, recipe=replace(MAKES.ec2.recipe, free_gb=10**6)))
    assert build(maker, vast).cause() == "build-no-space"


def test_a_bucket_that_takes_none(maker: World) -> None:
    """It serves, says so, and the next boot offers it again without compiling."""
    maker.faults(bucket="read-only")
    done = boot(maker, MAKES)
    assert (done.code, done.status.state) == (0, "serving"), done.out
    (phase,) = (phase for phase in done.status.phases if phase.name == "build")
    assert phase.result == "done" and phase.cause.startswith("build-not-kept: ")
    assert maker.inside("ls", f"{PLACE}.making/keep").count("\n") == 2
    maker.faults()
    assert build(maker).code == 0
    assert (maker.folder / FOLDER / "manifest.json").exists() and len(wheels(maker)) == 1


def test_by_hand(maker: World) -> None:
    """`make` of the script, where no boot was and the bucket is not asked first."""
    maker.install(MAKES)
    maker.inside("sh", "-c", "rm -rf /run/flexserve/lib/*")
    script = maker.folder / "metadata" / "flexserve-script"
    maker.inside("env", "-i", f"PATH={maker.folder}/bin", "/bin/bash", str(script), "make")
    assert (maker.folder / FOLDER / "manifest.json").exists() and not maker.containers()
    maker.inside("mkdir", f"{PLACE}.making")  # cut off while what is no longer needed was removed
    maker.inside("touch", f"{PLACE}.making/in-bucket")
    assert build(maker).code == 0
    assert len(wheels(maker)) == 1 and not maker.inside("sh", "-c", f"ls -d {PLACE}.making")


def test_more_than_s3_takes_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No request is made."""
    (tmp_path / "manifest.json").write_text(json.dumps({"archive": "venv.tar.zst", "size": keeping.MOST + 1}))
    assert not keeping.upload(Kept("us-east-1", "bucket", "builds/key", "7.5"), tmp_path)
    assert capsys.readouterr().out.startswith("build-not-kept: ")


@pytest.mark.parametrize(
    ("memory", "swap", "cores", "expected"),
    [(8, 0, 4, 2), (7.6, 0, 4, 1), (7.6, 16, 4, 2), (15.4, 16, 8, 3), (31, 0, 16, 7), (32, 0, 16, 8), (64, 0, 4, 4), (1, 0, 2, 1)],
)
def test_jobs(memory: float, swap: int, cores: int, expected: int) -> None:
    assert jobs(int(memory * GIB), swap * GIB, cores) == expected
