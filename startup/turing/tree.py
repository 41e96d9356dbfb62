"""The file of an installed vLLM: found without importing vLLM, and written whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

from startup.turing.place import RULE
from verdict.errors import Refused

MODULE = Path("v1/attention/ops/triton_unified_attention.py")


def module_of(tree: Path | None) -> Path:
    """The attention module under `tree` (site-packages, or an unpacked wheel), or of the vLLM that Python would import.

    Raises `Refused` when there is none, with the place that was looked at.
    """
    package = tree / "vllm" if tree is not None else _installed()
    file = package / MODULE
    if not file.is_file():
        raise _absent(f"looked for {file}; found: no such file")
    return file


def write(file: Path, content: bytes) -> None:
    """Replace the file's content in one step, with its mode.

    A new file, never the old one overwritten: installers link files from a cache that other environments share.
    """
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".turing-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(file.stat().st_mode & 0o7777)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _installed() -> Path:
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise _absent("looked for the package vllm on this Python's path; found: none")
    return Path(next(iter(spec.submodule_search_locations)))


def _absent(why: str) -> Refused:
    return Refused(
        RULE, why=why, way_out="run it with the Python that vLLM is installed for, or name its site-packages with --tree"
    )
