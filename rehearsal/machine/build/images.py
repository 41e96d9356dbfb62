"""The container image's base layer, made without an engine."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from rehearsal.machine.build.recipe import IMAGE_PACKAGES
from rehearsal.machine.build.sources import Sources
from rehearsal.machine.build.tool import mmdebstrap, run, sha256

_UNUSED = (
    "var/lib/apt",
    "usr/share/locale",
    "usr/share/i18n",
    "usr/lib/*/gconv",
    "usr/lib/python3.*/test",
    "usr/lib/python3.*/pydoc_data",
)


def build(into: Path, sources: Sources) -> None:
    """Fill the empty folder `into`: `layer.tar.gz` and `layer.json` (`digest`, `diff_id`, `size`)."""
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        tree = Path(scratch) / "tree"
        slim = ["--format=directory", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
        mmdebstrap("extract", IMAGE_PACKAGES, tree, sources, slim)
        for unused in (found for pattern in _UNUSED for found in tree.glob(pattern)):
            shutil.rmtree(unused, ignore_errors=True)
        _compile(tree)
        for name in ("proc", "sys", "dev", "run", "root", "tmp"):
            (tree / name).mkdir(exist_ok=True)
        tar = ["tar", "-C", str(tree), "--numeric-owner", "--sort=name", "--mtime=@0", "-cf", "-", "."]
        data = subprocess.run(tar, check=True, capture_output=True).stdout
    packed = gzip.compress(data, 1, mtime=0)
    (into / "layer.tar.gz").write_bytes(packed)
    facts = {"digest": sha256(packed), "diff_id": sha256(data), "size": len(packed)}
    (into / "layer.json").write_text(json.dumps(facts))


def _compile(tree: Path) -> None:
    """Python's own library, as its package would at installation: else each start of a container compiles it, 0.4 CPU s.

    By the sources' content: their times are lost in the layer.
    """
    chroot = shutil.which("chroot", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or "chroot"
    for library in sorted(tree.glob("usr/lib/python3.*")):
        inside = f"/{library.relative_to(tree)}"
        words = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", inside]
        run([chroot, str(tree), "/usr/bin/python3", "-I", "-S", *words], "compileall")
