"""The container image's base layer, made without an engine."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from rehearsal.machine.build.recipe import IMAGE_PACKAGES
from rehearsal.machine.build.sources import Sources
from rehearsal.machine.build.tool import mmdebstrap, sha256


def build(into: Path, sources: Sources) -> None:
    """Fill the empty folder `into`: `layer.tar.gz` and `layer.json` (`digest`, `diff_id`, `size`)."""
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        tree = Path(scratch) / "tree"
        slim = ["--format=directory", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
        mmdebstrap("extract", IMAGE_PACKAGES, tree, sources, slim)
        for unused in [tree / "var/lib/apt", tree / "usr/share/locale", tree / "usr/share/i18n", *tree.glob("usr/lib/*/gconv")]:
            shutil.rmtree(unused, ignore_errors=True)
        for name in ("proc", "sys", "dev", "run", "root", "tmp"):
            (tree / name).mkdir(exist_ok=True)
        tar = ["tar", "-C", str(tree), "--numeric-owner", "--sort=name", "--mtime=@0", "-cf", "-", "."]
        data = subprocess.run(tar, check=True, capture_output=True).stdout
    packed = gzip.compress(data, 1, mtime=0)
    (into / "layer.tar.gz").write_bytes(packed)
    facts = {"digest": sha256(packed), "diff_id": sha256(data), "size": len(packed)}
    (into / "layer.json").write_text(json.dumps(facts))
