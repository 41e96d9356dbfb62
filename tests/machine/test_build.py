"""What the builders read and write, without building a system."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from rehearsal.machine import assets
from rehearsal.machine.build import recipe, repo, sources, tool
from verdict.errors import FlexserveError

DEB822 = """\
Types: deb
# http://archive.test/snapshot
URIs: http://archive.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb deb-src
URIs: http://security.test/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://vendor.test/node
Suites: nodistro
Components: main

Enabled: no
Types: deb
URIs: http://archive.test/debian
Suites: bookworm
Components: non-free
"""
ONE_LINE = """\
# deb http://commented.test/ubuntu jammy main
deb http://archive.test/ubuntu jammy main universe
deb [arch=amd64 signed-by=/k.gpg] http://archive.test/ubuntu jammy-security main
deb-src http://archive.test/ubuntu jammy main
deb http://vendor.test/docker jammy-vendor stable
"""


def host(folder: Path, codename: str, name: str, text: str) -> tuple[Path, Path]:
    """An apt folder with one sources file, and an os-release."""
    file = folder / "apt" / name
    (folder / "apt" / "sources.list.d").mkdir(parents=True)
    file.write_text(text)
    (folder / "os-release").write_text(f'ID=x\nVERSION_CODENAME="{codename}"\n')
    return folder / "apt", folder / "os-release"


def test_debians_own_archives_and_no_other(tmp_path: Path) -> None:
    found = sources.read(*host(tmp_path, "bookworm", "sources.list.d/debian.sources", DEB822))
    assert found.codename == "bookworm"
    assert found.text.splitlines() == [
        "deb [signed-by=/usr/share/keyrings/archive.gpg] http://archive.test/debian bookworm main contrib",
        "deb [signed-by=/usr/share/keyrings/archive.gpg] http://archive.test/debian bookworm-updates main contrib",
        "deb http://security.test/debian-security bookworm-security main",
    ]


def test_ubuntus_one_line_style(tmp_path: Path) -> None:
    found = sources.read(*host(tmp_path, "jammy", "sources.list", ONE_LINE))
    assert found.text.splitlines() == [
        "deb http://archive.test/ubuntu jammy main universe",
        "deb [arch=amd64 signed-by=/k.gpg] http://archive.test/ubuntu jammy-security main",
    ]


def test_a_host_without_archives_of_its_release_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(FlexserveError, match="no package sources"):
        sources.read(*host(tmp_path, "noble", "sources.list", ONE_LINE))


def test_keys_change_with_their_own_inputs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {part: recipe.key(part, "bookworm") for part in recipe.PARTS}
    assert len(set(before.values())) == len(recipe.PARTS)
    assert all(recipe.key(part, "trixie") != key for part, key in before.items())
    monkeypatch.setattr(recipe, "IMAGE_PACKAGES", (*recipe.IMAGE_PACKAGES, "one-more"))
    after = {part: recipe.key(part, "bookworm") for part in recipe.PARTS}
    assert [part for part in recipe.PARTS if after[part] != before[part]] == ["images"]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("out of disk")

    with pytest.raises(RuntimeError):
        tool.into_place(tmp_path / "root", fill)
    assert list(tmp_path.iterdir()) == []
    tool.into_place(tmp_path / "root", lambda folder: (folder / "whole").touch())
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_a_program_that_fails_is_told_with_its_last_words() -> None:
    with pytest.raises(FlexserveError) as caught:
        tool.run(["sh", "-c", "echo no such suite >&2; exit 3"], "the builder")
    assert (caught.value.what, caught.value.why) == ("the builder failed with exit code 3", "no such suite")
    with pytest.raises(FlexserveError, match="is not installed"):
        tool.run(["no-such-program"], "no-such-program")


def test_the_index_names_every_package(tmp_path: Path) -> None:
    package = tmp_path / "tree"
    (package / "DEBIAN").mkdir(parents=True)
    control = "Package: small\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y.test>\nDescription: small\n"
    (package / "DEBIAN/control").write_text(control)
    pool = tmp_path / "pool"
    pool.mkdir()
    subprocess.run(["dpkg-deb", "--build", str(package), str(pool / "small_1_all.deb")], check=True, capture_output=True)
    repo.index(pool)
    text = (pool / "Packages").read_text()
    assert gzip.decompress((pool / "Packages.gz").read_bytes()).decode() == text
    assert "Package: small\n" in text
    assert f"Size: {(pool / 'small_1_all.deb').stat().st_size}\n" in text


def test_what_is_not_built_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path))
    with pytest.raises(FlexserveError) as caught:
        assets.locate()
    assert "root, images, repo" in caught.value.what
    assert caught.value.way_out == "python -m rehearsal.machine.build all"
