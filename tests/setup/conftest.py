"""A machine in a scratch folder, with the project's own pins."""

import shutil
import threading
import time
from pathlib import Path

import pytest

from tools.setup.host import Host
from tools.setup.work import Work

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def host(tmp_path):
    """A checkout and a cache of its own; not root, no Debian, empty PATH, no downloads."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    (tmp_path / "path").mkdir()
    return Host(
        root=root,
        cache=tmp_path / "cache",
        environ={"PATH": str(tmp_path / "path"), "HOME": str(tmp_path / "home")},
        python="/nonexistent/python3",
        uid=1000,
        os_ids=(),
        downloads=False,
    )


@pytest.fixture
def work(tmp_path):
    return Work(log=tmp_path / "step.log", stop=threading.Event(), deadline=time.monotonic() + 60)


@pytest.fixture
def command(tmp_path):
    """Put a shell script on the host's PATH: `command(name, body)`."""

    def put(name: str, body: str, folder: Path | None = None) -> Path:
        file = (folder or tmp_path / "path") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
        return file

    return put
