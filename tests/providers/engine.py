"""The real engine and the real language host, run on the recorded program in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.providers.printed import Run, parse

PROJECT = "fleet"
FLAGS = {"up": ["--yes", "--skip-preview"], "destroy": ["--yes", "--skip-preview"], "refresh": ["--yes"], "preview": []}
LIMIT_S = 300


class Engine:
    """Pulumi on a file backend below `folder`, with the provider attached at `port`."""

    def __init__(self, folder: Path, program: Path, port: int, provider: str = "gcp") -> None:
        self._folder = folder
        (folder / "state").mkdir(parents=True)
        (folder / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\n", encoding="utf-8")
        shutil.copy(program, folder / "__main__.py")
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")} | {
            "PULUMI_BACKEND_URL": f"file://{folder}/state",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "recorded",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",  # of the other cloud: five tries, 2.5 s
            "PULUMI_DEBUG_PROVIDERS": f"{provider}:{port}",
            # The language host finds its interpreter on PATH.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def configure(self, stack: str, config: Mapping[str, Any]) -> None:
        """Make the stack if it is not there, and give it this configuration and no other."""
        path = self._folder / f"Pulumi.{stack}.yaml"
        if not path.exists():
            self._pulumi("stack", "init", stack, check=True)
        settings = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(yaml.safe_dump({**(settings or {}), "config": dict(config)}), encoding="utf-8")

    def run(self, stack: str, command: str) -> Run:
        """One command (`up --refresh`), read into what it said."""
        done = self.command(stack, command)
        return parse(command, done.stdout, done.returncode)

    def command(self, stack: str, command: str) -> subprocess.CompletedProcess[str]:
        """One command, as it ended."""
        verb, *more = command.split()
        return self._pulumi(verb, *more, *FLAGS[verb], "--suppress-progress", "-s", stack)

    def resources(self, stack: str) -> list[dict[str, Any]]:
        """The stack's resources as the state file holds them."""
        path = self._folder / "state" / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"
        latest = json.loads(path.read_text(encoding="utf-8"))["checkpoint"]["latest"] or {}
        resources: list[dict[str, Any]] = latest.get("resources", [])
        return resources

    def _pulumi(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *words, "--non-interactive", "--color", "never"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=check,
            timeout=LIMIT_S,
        )
