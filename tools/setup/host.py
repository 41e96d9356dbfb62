"""The machine that is set up, as the steps see it: folders, environment, who we are."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from verdict.places import cache_root

# A variable of these would send packages elsewhere, or make the new environment see the old one.
_LEFT_OUT = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_HASHES", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Host:
    """A machine. `root` is the checkout; `downloads` is False when download sites are forbidden (registries remain)."""

    root: Path
    cache: Path
    environ: Mapping[str, str]
    python: str
    uid: int
    os_ids: tuple[str, ...]
    downloads: bool = True

    @classmethod
    def here(cls, root: Path) -> Host:
        """Ask the running system."""
        environ = dict(os.environ)
        return cls(
            root=root,
            cache=cache_root(environ),
            environ=environ,
            python=sys.executable,
            uid=os.geteuid(),
            os_ids=_os_ids(Path("/etc/os-release")),
            downloads=environ.get("FLEXSERVE_DOWNLOADS", "yes") != "no",
        )

    @property
    def venv(self) -> Path:
        """The virtual environment of the checkout."""
        return self.root / ".venv"

    @property
    def bin(self) -> Path:
        """Where the commands are."""
        return self.venv / "bin"

    @property
    def debian(self) -> bool:
        """Debian, Ubuntu or one of their kin."""
        return "debian" in self.os_ids

    @property
    def is_root(self) -> bool:
        """Whether packages may be installed."""
        return self.uid == 0

    def path_folders(self) -> list[Path]:
        """The folders of PATH in order, without our own environment."""
        folders = [Path(p) for p in self.environ.get("PATH", "").split(os.pathsep) if p]
        return [f for f in folders if f != self.bin and f.resolve() != self.bin.resolve()]

    def which(self, command: str) -> str | None:
        """A command on PATH, outside our own environment; the administrator's folders are looked at too."""
        folders = [*map(str, self.path_folders()), "/usr/sbin", "/sbin"]
        return shutil.which(command, path=os.pathsep.join(folders))

    def child_environ(self, **more: str) -> dict[str, str]:
        """What a step's commands get."""
        return {**{k: v for k, v in self.environ.items() if k not in _LEFT_OUT}, "LC_ALL": "C.UTF-8", **more}


def _os_ids(release: Path) -> tuple[str, ...]:
    try:
        text = release.read_text(encoding="utf-8")
    except OSError:
        return ()
    words = re.findall(r"^(?:ID|ID_LIKE)=[\"']?([^\"'\n]*)", text, re.MULTILINE)
    return tuple(" ".join(words).split())
