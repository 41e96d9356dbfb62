"""Versions, read from where they are pinned: the lock and the module files. Nothing is written down twice."""

from __future__ import annotations

import re
from pathlib import Path

from tools.setup.step import StepFailed

ENGINE_MODULE = "github.com/pulumi/pulumi/pkg/v3"
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"


def locked(root: Path, package: str) -> str:
    """The version of a Python package in the lock. Raises `StepFailed` when it is not there."""
    return _one(root / "requirements.lock", rf"^{re.escape(package)}==([^\s\\;]+)", package)


def locked_lines(root: Path, package: str) -> str:
    """The package's lines in the lock, with its hashes."""
    return _one(root / "requirements.lock", rf"^({re.escape(package)}==(?:[^\n]*\\\n)*[^\n]*)", package) + "\n"


def module(folder: Path, path: str) -> str:
    """The version of a Go module in `folder/go.mod`, without its `v`."""
    return _one(folder / "go.mod", rf"^(?:require )?\s*{re.escape(path)} v(\S+)", path)


def go_directive(folder: Path) -> tuple[int, ...]:
    """The Go release that `folder/go.mod` asks for."""
    return parse(_one(folder / "go.mod", r"^go (\S+)", "go"))


def parse(text: str) -> tuple[int, ...]:
    """`v3.274.1` or `go1.26.8` as a tuple of ints; what follows the numbers is ignored. Empty when there is none."""
    match = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(int(n) for n in match[0].split(".")) if match else ()


def _one(file: Path, pattern: str, what: str) -> str:
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise StepFailed(f"{file.name} does not pin {what}", way_out="make lock")
    return match[1]
