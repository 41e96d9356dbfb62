"""The spot stack's program through the real engine, against the local AWS and the stand-in provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.kept import Kept, from_state
from infra.state import from_export
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.cloud.clock import TurnedClock
from rehearsal.project import change, private_copy
from rehearsal.providers.aws import aws_provider
from tests.conftest import COMMIT
from tests.infra.nets import Names, serving
from tests.infra.workshop import LIMIT_S, ROOT, Ended, Workshop

STACK = "g5g-spot"
FOREIGN = ("PULUMI_", "FLEXSERVE_", "GOOGLE_", "CLOUDSDK_", "AWS_", "HF_")


@dataclass(frozen=True)
class Tried:
    """An update that ended: `failed` or `succeeded`, and what the state held then."""

    result: str
    kept: Kept | None
    types: frozenset[str]


@dataclass
class AwsShop(Workshop):
    """One private copy of the project and all that it talks to."""

    cloud: LocalAwsCloud  # type: ignore[assignment]

    def up(self, **environment: str) -> Ended:
        """`pulumi up` without the preview that asks."""
        return self.pulumi("up", "-s", STACK, "--yes", "--skip-preview", **environment)

    def flexserve(self, *words: str, **environment: str) -> tuple[int, dict[str, Any], str]:
        """The product's own command with `--json`: its code, its document, what it said."""
        ran = subprocess.run(
            [sys.executable, "-m", "flexserve", words[0], "-s", STACK, "--json", *words[1:]],
            cwd=self.project,
            env={**self.environment, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return ran.returncode, json.loads(ran.stdout or "{}"), ran.stderr

    def set(self, *settings: str) -> None:
        """Edit the stack file."""
        for setting in settings:
            change(self.project, STACK, setting)

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        return dict(from_export(self.export()).outputs)

    def export(self) -> dict[str, Any]:
        """The whole state, as `pulumi stack export` prints it. Read from the backend: each command is a process of 0.25 s."""
        backend = Path(self.environment["PULUMI_BACKEND_URL"].removeprefix("file://"))
        text = (backend / ".pulumi" / "stacks" / "flexserve" / f"{STACK}.json").read_text(encoding="utf-8")
        return {"deployment": json.loads(text)["checkpoint"].get("latest") or {}}

    def tries(self) -> list[Tried]:
        """Every update so far, the first one first, with the state that it left: the backend keeps both."""
        backend = Path(self.environment["PULUMI_BACKEND_URL"].removeprefix("file://"))
        found = []
        for told in sorted((backend / ".pulumi" / "history" / "flexserve" / STACK).glob("*.history.json")):
            state = told.with_name(told.name.replace(".history.", ".checkpoint.")).read_text(encoding="utf-8")
            export = {"deployment": json.loads(state)["checkpoint"].get("latest") or {}}
            types = frozenset(resource["type"] for resource in export["deployment"].get("resources") or ())
            kept = from_export(export).kept
            found.append(Tried(json.loads(told.read_text(encoding="utf-8"))["result"], from_state(kept) if kept else None, types))
        return found

    def kept(self) -> Kept:
        """The kept state."""
        return from_state(from_export(self.export()).kept)

    def machines(self) -> list[str]:
        """Ids of the instances that are not gone."""
        return [id_ for id_, state in self.cloud.instances().items() if state not in ("terminated", "shutting-down")]

    def left(self) -> list[str]:
        """Kinds of what still bills, the operator's own secret aside."""
        return sorted(item.kind for item in self.cloud.ledger.left() if item.kind != "secret")


@contextmanager
def aws_workshop(folder: Path, *sets: str, off: float = 0) -> Iterator[AwsShop]:
    """Everything started; a new stack in a new backend. The cloud's clock is `off` seconds ahead of this machine's."""
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    cloud = LocalAwsCloud(clock=TurnedClock(lambda: time.time() + off))
    with cloud, serving(Names()) as names, aws_provider(cloud.clock.sleep) as port:
        project = private_copy(
            ROOT, folder, STACK, cloud.stack_config(), (f"target.build.commit={COMMIT}", "target.bucket=own", *sets)
        )
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)},
            **cloud.environment(),
            "PATH": path,
            "HOME": str(folder / "home"),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",  # of the other cloud: five tries, 2.5 s
            "PULUMI_DEBUG_PROVIDERS": f"aws:{port}",
            "HF_ENDPOINT": names.base,
        }
        for name in ("state", "home", "pulumi"):
            (folder / name).mkdir()
        shop = AwsShop(project, cloud, names, environment)
        cloud.put_secret("hf-token", "hf_" + "sentinel" * 4)
        ready = shop.pulumi("stack", "init", STACK)
        assert ready.code == 0, ready.text
        yield shop
