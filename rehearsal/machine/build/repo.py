"""The apt repository inside the machine: what the root lacks, from the host's own sources."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from rehearsal.machine.build.recipe import REPOSITORY_PACKAGES
from rehearsal.machine.build.sources import Sources
from rehearsal.machine.build.tool import run

REPACK_FROM = 1024 * 1024


def build(into: Path, sources: Sources, root_dir: Path) -> None:
    """Fill the empty folder `into` with a flat repository: the .deb files, `Packages`, `Packages.gz`."""
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        state = Path(scratch)
        for folder in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"):
            (state / folder).mkdir(parents=True)
        (state / "sources.list").write_text(sources.text)
        settings = {
            "Dir::State": state, "Dir::State::lists": state / "lists", "Dir::Cache": state / "cache",
            "Dir::State::status": root_dir / "var/lib/dpkg/status", "Dir::Etc::sourcelist": state / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null", "APT::Sandbox::User": "root", "Debug::NoLocking": "1",
            "APT::Install-Recommends": "true", "pkgCacheGen::Essential": "none",
        }  # fmt: skip
        options = [f"-o{name}={value}" for name, value in settings.items()]
        run(["apt-get", "-qq", *options, "update"], "apt-get update")
        wanted = ["--download-only", "--reinstall", "--yes", "install", *REPOSITORY_PACKAGES]
        run(["apt-get", "-qq", *options, *wanted], "apt-get install --download-only")
        for deb in (state / "cache" / "archives").glob("*.deb"):
            _store(deb, into / deb.name.replace("%3a", "_"), state / "unpacked")
    index(into)


def _store(deb: Path, target: Path, scratch: Path) -> None:
    """Keep a package, a large one in a compression that costs little to undo (xz takes most of an installation's time)."""
    if deb.stat().st_size < REPACK_FROM:
        deb.rename(target)
        return
    run(["dpkg-deb", "--raw-extract", str(deb), str(scratch)], "dpkg-deb --raw-extract")
    run(["dpkg-deb", "--build", "--root-owner-group", "-Zzstd", "-z1", str(scratch), str(target)], "dpkg-deb --build")
    shutil.rmtree(scratch)


def index(folder: Path) -> None:
    """Write `Packages` and `Packages.gz` for the .deb files of `folder` (what dpkg-scanpackages does)."""
    entries = []
    for deb in sorted(folder.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "--field", str(deb)], check=True, capture_output=True, text=True).stdout
        data = deb.read_bytes()
        entries.append(
            f"{control.rstrip()}\nFilename: ./{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
    text = "\n".join(entries)
    (folder / "Packages").write_text(text)
    (folder / "Packages.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
