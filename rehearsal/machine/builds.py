"""The stand-in for a kept build of vLLM: the archive and manifest that a bucket would hold.

Its `vllm` is the stand-in server, its attention kernel a module of the shape that the Turing patch looks for, so that patching and
checking it are real. Nothing in it was compiled, and the manifest says so.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass

from rehearsal.machine.images import APPLICATION, OPTIONS, VERSION

SITE = "venv/lib/python3.12/site-packages"
KERNEL_PLACE = f"{SITE}/vllm/v1/attention/ops/triton_unified_attention.py"
COMMAND = b"""#!/bin/sh
# stand-in for vLLM: takes its arguments as vLLM does, answers the OpenAI API
here=$(dirname "$(readlink -f "$0")")/..
export PYTHONPATH="$here/stand-in" PYTHONDONTWRITEBYTECODE=1 STAND_IN_OPTIONS="$here/stand-in/options.json"
exec /usr/bin/python3 -S -m rehearsal.machine.vllm.server "$@"
"""
KERNEL = b'''"""Stand-in: who chooses the tile, where, and what is launched with it. Nothing here can run."""
from vllm.platforms import current_platform
from vllm.triton_utils import triton


def unified_attention(q, k, **others):
    """The wrapper of the kernel."""
    head_size = q.shape[2]
    TILE_SIZE_PREFILL = 32
    TILE_SIZE_DECODE = 16
    kernel_unified_attention[(1,)](q=q, TILE_SIZE=TILE_SIZE_PREFILL if others else TILE_SIZE_DECODE)
'''


@dataclass(frozen=True)
class KeptBuild:
    """What lies in the bucket below `builds/KEY/`: file name -> bytes."""

    files: dict[str, bytes]


def stand_in(capability: str = "7.5", version: str = VERSION) -> KeptBuild:
    """The same bytes for the same code every time."""
    archive = _archive()
    manifest = {
        "archive": "venv.tar.gz",
        "size": len(archive),
        "sha256": hashlib.sha256(archive).hexdigest(),
        "vllm": version,
        "torch": "stand-in",
        "arch_list": [f"sm_{capability.replace('.', '')}"],
        "made_by": "rehearsal: a stand-in, nothing was compiled",
    }
    return KeptBuild({"venv.tar.gz": archive, "manifest.json": json.dumps(manifest, indent=2).encode()})


def files() -> dict[str, bytes]:
    """What the archive holds: path -> bytes."""
    package = "venv/stand-in/rehearsal/machine/vllm"
    found = {f"{package}/{path.name}": path.read_bytes() for path in sorted(APPLICATION.glob("*.py"))}
    found |= {"venv/stand-in/rehearsal/__init__.py": b"", "venv/stand-in/rehearsal/machine/__init__.py": b""}
    return {**found, "venv/stand-in/options.json": OPTIONS.read_bytes(), "venv/bin/vllm": COMMAND, KERNEL_PLACE: KERNEL}


def mode(name: str) -> int:
    """Whether it may be run."""
    return 0o755 if name.endswith("/bin/vllm") else 0o644


def _archive() -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in sorted(files().items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode(name)
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), 6, mtime=0)
