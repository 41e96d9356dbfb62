"""Docker as a layer: unpacked once, whole or absent, and never in the way of the root's own links."""

import subprocess

import pytest

from rehearsal.machine import software
from verdict.errors import FlexserveError


@pytest.fixture
def repo(tmp_path, monkeypatch):
    """A repository of four tiny packages, and a cache of its own."""
    monkeypatch.setattr(software, "cache_root", lambda: tmp_path / "cache")
    repo = tmp_path / "machine-repo-0123456789ab"
    repo.mkdir()
    for name in software.WANTED:
        tree = tmp_path / "trees" / name
        for file in (f"usr/bin/{name}", f"lib/udev/{name}.rules", f"lib/systemd/system/{name}.service", f"usr/share/doc/{name}"):
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_text(name)
        (tree / "DEBIAN").mkdir()
        about = f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@example.com>\nDescription: x\n"
        (tree / "DEBIAN/control").write_text(about)
        subprocess.run(["dpkg-deb", "--build", str(tree), str(repo / f"{name}_1_amd64.deb")], check=True, capture_output=True)
    return repo


def test_what_is_unpacked(repo):
    folder = software.docker(repo)
    assert folder.name == "machine-docker-0123456789ab"
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert found == {place for name in software.WANTED for place in (f"usr/bin/{name}", f"usr/lib/udev/{name}.rules")}
    assert [path.name for path in folder.iterdir()] == ["usr"]  # /lib of the root is a link that a folder would hide


def test_it_is_unpacked_once(repo):
    folder = software.docker(repo)
    (folder / "mark").touch()
    assert (software.docker(repo) / "mark").exists()


def test_a_package_that_is_missing_leaves_nothing(repo):
    next(repo.glob("runc_*")).unlink()
    with pytest.raises(FlexserveError, match="lack runc"):
        software.docker(repo)
    assert list((repo.parent / "cache").iterdir()) == []
