"""The real program through the real engine, against the local cloud and the stand-in provider."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.kept import Kept, from_state
from infra.state import from_export
from rehearsal.cloud.google.cloud import LocalGoogleCloud
from rehearsal.project import change, private_copy
from rehearsal.providers.google import google_provider
from tests.infra.nets import Names, serving

ROOT = Path(__file__).resolve().parents[2]
STACK = "tpu-v6e"
LIMIT_S = 500


@dataclass(frozen=True)
class Ended:
    """A pulumi command that ended."""

    code: int
    text: str

    def succeeded(self) -> bool:
        """Ended well; fails with all that was printed otherwise."""
        assert self.code == 0, self.text
        return True

    def failed_with(self, *texts: str) -> bool:
        """Ended in an error that says all of this, once, without a traceback; fails with all that was printed otherwise."""
        assert self.code != 0, self.text
        for text in texts:
            assert text in self.text, self.text
        assert "Traceback" not in self.text and "unhandled" not in self.text, self.text
        return True

    def changes(self) -> dict[str, int]:
        """The summary line by line: `+ 11 created` -> {"created": 11}."""
        found: dict[str, int] = {}
        lines = self.text.partition("Resources:")[2].partition("Duration")[0].splitlines()
        for line in lines:
            words = line.replace("~", "").replace("+-", "").replace("+", "").replace("-", "", 1).split()
            if len(words) >= 2 and words[0].isdigit():
                found[" ".join(words[1:])] = int(words[0])
        return found


@dataclass
class Workshop:
    """One private copy of the project and all that it talks to."""

    project: Path
    cloud: LocalGoogleCloud
    names: Names
    environment: dict[str, str]

    def pulumi(self, *words: str, **environment: str) -> Ended:
        """Run one command without a terminal."""
        ran = subprocess.run(
            ["pulumi", *words, "--non-interactive", "--color", "never"],
            cwd=self.project,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Ended(ran.returncode, ran.stdout)

    def up(self, **environment: str) -> Ended:
        """`pulumi up` without the preview that asks."""
        return self.pulumi("up", "-s", STACK, "--yes", "--skip-preview", **environment)

    def set(self, *settings: str) -> None:
        """Edit the stack file."""
        for setting in settings:
            change(self.project, STACK, setting)

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        ran = self.pulumi("stack", "output", "--json", "-s", STACK)
        document: dict[str, Any] = json.loads(ran.text)
        return document

    def export(self) -> dict[str, Any]:
        """The whole state."""
        document: dict[str, Any] = json.loads(self.pulumi("stack", "export", "-s", STACK).text)
        return document

    def kept(self) -> Kept:
        """The kept state."""
        return from_state(from_export(self.export()).kept)

    def instances(self) -> list[Mapping[str, Any]]:
        """The VMs that the cloud has."""
        status, body = self.cloud.request("GET", f"/compute/v1/projects/{self.cloud.project}/aggregated/instances")
        assert status == 200
        return [i for scope in body["items"].values() for i in scope.get("instances", [])]

    def compute_writes(self, since: int) -> list[tuple[str, str]]:
        """Method and path below the project of every write to Compute since a request's number."""
        wrote = [r for r in self.cloud.requests()[since:] if r["method"] != "GET" and "/compute/" in str(r["path"])]
        return [(str(r["method"]), str(r["path"]).partition(f"/projects/{self.cloud.project}/")[2]) for r in wrote]


@contextmanager
def workshop(folder: Path, *sets: str) -> Iterator[Workshop]:
    """Everything started; a new stack in a new backend. Stopped and forgotten at the end."""
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    assert shutil.which("pulumi", path=path), "pulumi is not on PATH: run make setup"
    cloud = LocalGoogleCloud(project="acme-1")
    with cloud, serving(Names()) as names, google_provider(cloud.clock.sleep) as port:
        filled = (f"target.project={cloud.project}", 'access.members=["user:ops@acme.test"]', *sets)
        project = private_copy(ROOT, folder, STACK, cloud.stack_config(), filled)
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PULUMI_", "FLEXSERVE_", "GOOGLE_", "CLOUDSDK_", "HF_"))},
            **cloud.environment(),
            "PATH": path,
            "HOME": str(folder / "home"),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",  # of the other cloud: five tries, 2.5 s
            "PULUMI_DEBUG_PROVIDERS": f"gcp:{port}",
            "FLEXSERVE_REGISTRY_URL": names.base,
            "HF_ENDPOINT": names.base,
        }
        for name in ("state", "home", "pulumi"):
            (folder / name).mkdir()
        shop = Workshop(project, cloud, names, environment)
        cloud.put_secret("hf-token", "hf_" + "sentinel" * 4)
        ready = shop.pulumi("stack", "init", STACK)
        assert ready.code == 0, ready.text
        yield shop
