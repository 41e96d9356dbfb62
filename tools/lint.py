"""`make lint`: every check with its seconds; the output of those that fail. Exit code 1 when one does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tracked(root: Path) -> list[Path]:
    """The files of the project: what git tracks or would, or all files where there is no git."""
    argv = ["git", "-C", str(root), "-c", f"safe.directory={root}", "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(argv, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        return [p for p in sorted(root.rglob("*")) if p.is_file() and not {".venv", ".git"} & set(p.parts)]
    return [root / name for name in listed if name and (root / name).is_file()]


def shell_scripts(files: Sequence[Path]) -> list[Path]:
    """Files that a shell runs: by their suffix or their first line. Templates are rendered first, and checked in tests."""
    scripts = []
    for file in files:
        if file.suffix in (".j2", ".jinja", ".py", ".lock"):
            continue
        with file.open("rb") as handle:
            first = handle.readline(80)
        if file.suffix == ".sh" or (first.startswith(b"#!") and first.split(b"/")[-1].split()[-1] in (b"sh", b"bash")):
            scripts.append(file)
    return scripts


def checks(files: Sequence[Path]) -> list[tuple[str, list[str]]]:
    """Name and command line of each check. mypy's own list of modules is in pyproject.toml."""
    scripts = [str(f.relative_to(ROOT)) for f in shell_scripts(files)]
    return [
        ("ruff check", ["ruff", "check", "--quiet", "--output-format", "concise", "."]),
        ("ruff format", ["ruff", "format", "--quiet", "--check", "."]),
        ("mypy", ["mypy", "--no-error-summary"]),
        ("shellcheck", ["shellcheck", "--severity=style", *scripts]),
    ]


def main() -> int:
    """Run them all, at the same time."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    began = time.monotonic()
    running = [
        (name, subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for name, argv in checks(tracked(ROOT))
    ]
    failed = False
    for name, process in running:
        output, _ = process.communicate()
        failed = failed or process.returncode != 0
        print(f"lint: {name:<12} {'FAILED' if process.returncode else 'clean':<6} by {time.monotonic() - began:5.1f} s", flush=True)
        if process.returncode:
            print(output, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
