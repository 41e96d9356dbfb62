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
    *("var/lib/apt", "var/lib/dpkg/info", "usr/share/locale", "usr/share/i18n", "usr/share/info", "usr/share/perl5"),
    *("usr/share/lintian", "usr/lib/*/gconv", "usr/bin/openssl", "usr/bin/dpkg*", "bin/tar", "*/*/libmvec.so*"),
    *(f"usr/lib/*/lib{name}*.so*" for name in ("db-5", "sqlite3", "krb5", "k5crypto", "gssapi_krb5")),
    *(f"usr/lib/python3.*/{name}" for name in ("test", "pydoc_data", "idlelib", "lib2to3", "turtle.py", "sqlite3", "dbm")),
    *(f"usr/lib/python3.*/lib-dynload/{name}.*" for name in ("_codecs_*", "_dbm", "_sqlite3", "nis", "_test*", "_xx*")),
)
"""What no container's program asks for: a machine unpacks the layer, and a build packs it again to push it."""


def build(into: Path, sources: Sources) -> None:
    """Fill the empty folder `into`: `layer.tar.gz` and `layer.json` (`digest`, `diff_id`, `size`)."""
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        tree = Path(scratch) / "tree"
        slim = ["--format=directory", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
        mmdebstrap("extract", IMAGE_PACKAGES, tree, sources, slim)
        for unused in (found for pattern in _UNUSED for found in tree.glob(pattern)):
            shutil.rmtree(unused) if unused.is_dir() and not unused.is_symlink() else unused.unlink()
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

    Its sources go: a fifth of the layer.
    """
    chroot = shutil.which("chroot", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or "chroot"
    for library in sorted(tree.glob("usr/lib/python3.*")):
        inside = f"/{library.relative_to(tree)}"
        run([chroot, str(tree), "/usr/bin/python3", "-I", "-S", "-m", "compileall", "-q", "-b", inside], "compileall")
        for source in library.rglob("*.py"):
            if source.with_suffix(".pyc").exists():
                source.unlink()
        for folder in list(library.rglob("__pycache__")):
            shutil.rmtree(folder)
