"""The spot script on arm64: its own bash, curl, tar, zstd and Python are arm64 programs, run by qemu-user; `uname` is real.

What a machine has beyond its processor stays a stand-in, as in tests/startup: card, torch, compiler, apt, git, AWS, the Hub.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.machine import authority
from rehearsal.machine.assets import cache_folder
from rehearsal.machine.build import arm64, sources
from startup.spec import BootSpec
from startup.turing import patch
from startup.turing.tree import MODULE
from tests.startup.specs import MAKES, SPOT
from tests.startup.test_boot_makes import FOLDER, PLACE, wheels
from tests.startup.test_boot_spot import ORDER, keep_build
from tests.startup.world import NAMES, Boot, World, available
from tests.turing.shape import SOURCE

BOOT_S = 900  # an emulated Python starts in about a second on a quiet machine
pytestmark = pytest.mark.timeout(3 * BOOT_S)


@pytest.fixture(scope="module")
def root() -> Path:
    folder = cache_folder("arm64", sources.read().codename)
    assert folder.is_dir(), "make test-arm64 unpacks it first"
    assert not available(), available()
    return folder


@pytest.fixture
def world(root: Path, tmp_path: Path) -> Iterator[World]:
    authority.make(tmp_path / "tls", NAMES)
    world = World(tmp_path / "world", tmp_path / "tls", root)
    (world.folder / "bin" / "uname").unlink()
    yield world
    world.close()


def boot(world: World, spec: BootSpec) -> Boot:
    world.install(spec)
    process = world.start("run")
    out, _ = process.communicate(timeout=BOOT_S)
    return Boot(process.returncode, out, world.status(), world.reported())


def test_what_runs_is_arm64(root: Path, world: World) -> None:
    """Also what a program starts, and what that starts: no step falls back to this host's own."""
    assert arm64.machine(root) == "aarch64"
    asked = "import os, platform, subprocess; print(platform.machine(), subprocess.getoutput('bash -c \"uname -m; id -u\"'))"
    assert world.inside("/usr/bin/python3", "-c", asked).split() == ["aarch64", "aarch64", "0"]


def test_a_kept_build_is_taken_patched_and_served(world: World) -> None:
    keep_build(world)
    ended = boot(world, SPOT)
    assert (ended.code, ended.status.state) == (0, "serving"), ended.out
    assert ended.results() == dict.fromkeys(ORDER, "done")
    patched = world.inside("cat", f"{PLACE}/venv/lib/python3.12/site-packages/vllm/{MODULE}")
    assert patch.check(patched.encode()).name == "patched"


def test_a_build_is_made_where_uname_says_aarch64_by_itself(world: World) -> None:
    (world.folder / "kernel").write_text(SOURCE)
    (world.folder / "kernel-place").write_text(str(MODULE))
    world.inside("sh", "-c", f"mkdir -p /opt/pytorch/bin && cp {world.folder}/bin/git /opt/pytorch/bin/python")
    ended = boot(world, MAKES)
    assert (ended.code, ended.results()) == (0, dict.fromkeys(ORDER, "done")), ended.out
    manifest = json.loads((world.folder / FOLDER / "manifest.json").read_text())
    archive = world.folder / FOLDER / manifest["archive"]
    assert archive.stat().st_size == manifest["size"] and manifest["arch_list"] == ["sm_75"] and len(wheels(world)) == 1
    assert not world.calls("uname")
