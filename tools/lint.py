"""`make lint`: every check with its seconds; the output of those that fail. Exit code 1 when one does.

`python -m tools.lint --beside COMMAND ...` runs a command at the same time; its exit code goes before. What a check
found is shown when both have ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
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


def main(words: Sequence[str] = ()) -> int:
    """Run them all, at the same time."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    running = [_Check(name, argv, environ) for name, argv in checks(tracked(ROOT))]
    beside = subprocess.run(words[1:], check=False).returncode if list(words[:1]) == ["--beside"] else 0
    for check in running:
        check.join()
        if check.code:
            print(f"lint: {check.name} FAILED\n{check.output}", flush=True)
    return abs(beside) or int(any(check.code for check in running))


class _Check(threading.Thread):
    """One check in a process of its own. How it ended is said when it has; what it printed is kept."""

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        super().__init__(name=name)
        self.code, self.output = 1, ""
        self._argv, self._environ = argv, environ
        self.start()

    def run(self) -> None:
        """Until it has ended."""
        began = time.monotonic()
        try:
            done = subprocess.run(
                self._argv, cwd=ROOT, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            self.code, self.output = done.returncode, done.stdout
        except OSError as error:
            self.output = f"{self._argv[0]} cannot be started: {error.strerror}"
        print(f"lint: {self.name:<12} {'FAILED' if self.code else 'clean':<6} {time.monotonic() - began:5.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
