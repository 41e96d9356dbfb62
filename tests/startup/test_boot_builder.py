"""A builder's boot: the same steps as phases, the build and a report in the bucket, and the machine off. Nothing is compiled.

That a machine serves from what a builder made is of `rehearsal/test_life_g5g`.
"""

from __future__ import annotations

import json

import pytest

from startup.phases import parse
from tests.startup.specs import BUILDER
from tests.startup.test_boot_makes import COMMIT, CREDENTIALS, FOLDER, maker, wheels  # noqa: F401 (a fixture)
from tests.startup.test_boot_spot import boot
from tests.startup.world import World, wait_for

ORDER = ("host", "checks", "toolkit", "source", "rust", "venv", "wheel", "install", "keep")


def report(world: World) -> dict[str, object]:
    """What it left in the bucket for who looks when it is gone."""
    return json.loads((world.folder / "bucket" / "bu1lder" / "report").read_text())


def offs(world: World) -> int:
    return len([row for row in world.calls("systemctl") if row["argv"][1] == "poweroff"])


def test_it_makes_the_build_keeps_it_and_is_off(maker: World) -> None:  # noqa: F811
    done = boot(maker, BUILDER)
    assert (done.code, done.status.state, done.results()) == (0, "done", dict.fromkeys(ORDER, "done")), done.out
    files = {path.name for path in (maker.folder / FOLDER).iterdir()}
    manifest = json.loads((maker.folder / FOLDER / "manifest.json").read_text())
    assert files == {"manifest.json", manifest["archive"]}  # the probe is gone
    assert (manifest["commit"], manifest["arch_list"]) == (COMMIT, ["sm_75"]) and "builder" in manifest["made_by"]
    told = parse(report(maker)["documents"])
    assert told is not None and told.state == "done" and {p.name for p in told.phases} == set(ORDER)
    assert offs(maker) == 1 and len(wheels(maker)) == 1
    assert not maker.calls("nvidia-smi") and not maker.asked("secretsmanager") and not maker.asked("huggingface.co")
    said = done.out + "".join((maker.folder / name).read_text(errors="replace") for name in ("calls.raw", "calls.jsonl"))
    assert not any(secret in said + json.dumps(report(maker)) for secret in CREDENTIALS)

    again = boot(maker, BUILDER)  # it came up again between the report and the end
    assert set(again.results().values()) == {"skipped"} and len(wheels(maker)) == 1, again.out


@pytest.mark.parametrize(
    ("faults", "phase", "cause", "compiled"),
    [
        ({"machine": "x86"}, "checks", "build-other-machine", 0),
        ({"torch": "no-sm75"}, "checks", "build-torch-without-arch", 0),
        ({"bucket": "read-only"}, "checks", "bucket-not-writable", 0),
        ({"git": "other-commit"}, "source", "build-commit", 0),
        ({"apt": "no-toolkit"}, "toolkit", "build-no-nvcc", 0),
        ({"wheel": "error"}, "wheel", "build-compiler", 1),
        ({"compiled": "other-arch"}, "keep", "build-without-arch", 1),
    ],
    ids=lambda value: str(value),
)
def test_failures_by_name(maker: World, faults: dict[str, str], phase: str, cause: str, compiled: int) -> None:  # noqa: F811
    """What can be known before compiling is; the machine says why in the bucket, and is off."""
    maker.faults(**faults)
    done = boot(maker, BUILDER)
    assert (done.code, done.status.phase, done.cause()) == (1, phase, cause), done.out
    assert len(wheels(maker)) == compiled and offs(maker) == 1
    assert not list((maker.folder / FOLDER).glob("*"))  # nothing half is kept
    if faults.get("bucket") != "read-only":
        told = parse(report(maker)["documents"])
        assert told is not None and (told.state, told.phase) == ("failed", phase)
    if phase == "wheel":
        assert 'identifier "x" is undefined' in done.status.cause and "csrc/x.cu(12)" in report(maker)["log"]


def test_after_a_loss_of_power_it_goes_on(maker: World) -> None:  # noqa: F811
    maker.hold("wheel")
    maker.install(BUILDER)
    process = maker.start("run")
    wait_for(lambda: maker.held("wheel"))
    maker.kill()
    process.wait(60)
    maker.release("wheel")
    done = boot(maker, BUILDER)
    assert (done.code, done.status.state) == (0, "done"), done.out
    results = done.results()
    assert {results[name] for name in ("toolkit", "source", "rust", "venv")} == {"skipped"} and len(wheels(maker)) == 2


def test_told_to_stop_it_is_not_off(maker: World) -> None:  # noqa: F811
    """A reclaim: what follows is EC2's; where it does not come the next run goes on."""
    maker.hold("wheel")
    maker.install(BUILDER)
    process = maker.start("run")
    wait_for(lambda: maker.held("wheel"))
    maker.inside("sh", "-c", "kill -TERM $(cat /run/flexserve/boot.pid)")
    process.wait(60)
    maker.release("wheel")
    assert process.returncode == 143 and offs(maker) == 0
