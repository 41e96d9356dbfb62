"""The product's own commands as real processes, against the local cloud, the stand-in provider and the local relay.

The machine is the test's: it reports what a boot reports, through the cloud's own guest interface, and its port is a small server.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.cloud.google import OPERATOR_TOKEN, LocalGoogleCloud
from rehearsal.contracts import Completed, HostInventory, MachineSpec
from rehearsal.project import change, private_copy
from rehearsal.providers.google import google_provider
from rehearsal.reach import Reach
from rehearsal.relay.server import Relay
from startup.phases import NAMESPACE
from tests.cli.openai_server import OpenAiServer
from tests.cli.openai_server import serving as openai
from tests.infra.nets import Names
from tests.infra.nets import serving as names

ROOT = Path(__file__).resolve().parents[2]
STACK = "tpu-v6e"
OPERATOR = "user:ops@acme.test"
LIMIT_S = 900  # a busy machine is many times slower


@dataclass
class Behaviour:
    """How the next boots go."""

    fails_in: str = ""
    stays_in: str = ""
    cause: str = ""


class ReportingMachine:
    """Reports a boot of the script that its metadata holds, and again when the script changes."""

    kind = "sandbox"

    def __init__(self, spec: MachineSpec, behaviour: Behaviour, server: OpenAiServer) -> None:
        self._guest, self._behaviour, self._server = spec.guest, behaviour, server
        self._on = threading.Event()
        self.boots = 0

    def start(self) -> None:
        self._on.set()
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        etag, script = "", ""
        while self._on.is_set():
            try:
                wanted = str(self._guest.metadata()["instance"]["attributes"].get("flexserve-script-sha256", ""))
                if wanted and wanted != script:
                    script = wanted
                    self._boot(script)
                etag = self._guest.wait_for_change(etag, 1.0)
            except (LookupError, ValueError):  # the instance is being deleted
                return

    def _boot(self, script: str) -> None:
        self.boots += 1
        behaviour = self._behaviour
        self._tell("phase-docker", name="docker", start_s=0.1, seconds=1.2, result="done", needs=["packages"])
        if behaviour.stays_in:
            about = {"phase": behaviour.stays_in, "cause": "", "started_at": 1, "updated_at": 2, "boot_id": "b"}
            self._tell("state", state="booting", script=script, **about)
            return
        last = {"name": behaviour.fails_in or "serving", "start_s": 1.4, "seconds": 0.5, "needs": ["docker"]}
        if behaviour.fails_in:
            last |= {"result": "failed", "cause": behaviour.cause, "log_tail": "the last line"}
        else:
            last |= {"result": "done"}
        self._tell(f"phase-{last['name']}", **last)
        state = "failed" if behaviour.fails_in else "serving"
        about = {"phase": last["name"], "cause": behaviour.cause, "started_at": 1, "updated_at": 2, "boot_id": "b"}
        self._tell("state", state=state, script=script, **about)

    def _tell(self, key: str, **document: Any) -> None:
        self._guest.set_guest_attribute(NAMESPACE, key, json.dumps(document))

    def connect(self, port: int, timeout: float = 5.0) -> int:
        if port != 8000:
            raise ConnectionRefusedError
        return socket.create_connection(("127.0.0.1", self._server.port), timeout).detach()

    def power_cut(self) -> None:
        self._on.clear()

    def reboot(self) -> None:
        pass

    def exec(self, argv: Sequence[str], timeout: float = 20.0) -> Completed:
        return Completed(0, "", "")

    def log(self) -> str:
        return "flexserve: docker done\nflexserve: serving\n"

    def running(self) -> bool:
        return self._on.is_set()

    def delete(self) -> None:
        self._on.clear()

    def inventory(self) -> HostInventory:
        return HostInventory()


@dataclass
class Site:
    """One operator's folder and everything that it talks to."""

    project: Path
    cloud: LocalGoogleCloud
    server: OpenAiServer
    environment: dict[str, str]
    behaviour: Behaviour = field(default_factory=Behaviour)

    def run(self, *words: str, code: int, stack: bool = True) -> tuple[Any, str]:
        """`flexserve WORDS -s STACK --json` as a process; its document and its stderr. Fails on another exit code."""
        argv = [sys.executable, "-m", "flexserve", *words, *(["-s", STACK] if stack else []), "--json"]
        done = subprocess.run(
            argv, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return (json.loads(done.stdout) if done.stdout.strip() else None), done.stderr

    def text(self, *words: str, code: int = 0) -> str:
        """The same without --json; its stdout."""
        argv = [sys.executable, "-m", "flexserve", *words, "-s", STACK]
        done = subprocess.run(
            argv, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def change(self, setting: str) -> None:
        """Edit the stack file."""
        change(self.project, STACK, setting)


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """Everything started, with an empty backend."""
    behaviour, server = Behaviour(), OpenAiServer()
    cloud = LocalGoogleCloud(lambda spec: ReportingMachine(spec, behaviour, server), project="acme-1")
    with ExitStack() as stack:
        stack.enter_context(openai(server))
        stack.enter_context(cloud)
        hub = stack.enter_context(names(Names()))
        port = stack.enter_context(google_provider(cloud.clock.sleep))
        reach = Reach(cloud, OPERATOR, OPERATOR_TOKEN)
        relay = stack.enter_context(Relay(reach.connect, allowed=reach.allowed, folder=folder))
        filled = (f"target.project={cloud.project}", f"access.members=[{OPERATOR!r}]")
        project = private_copy(ROOT, folder, STACK, cloud.stack_config(), filled)
        for name in ("state", "home", "pulumi"):
            (folder / name).mkdir()
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PULUMI_", "FLEXSERVE_", "GOOGLE_", "CLOUDSDK_", "HF_"))},
            **cloud.environment(),
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder / "home"),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_DEBUG_PROVIDERS": f"gcp:{port}",
            "FLEXSERVE_REGISTRY_URL": hub.base,
            "HF_ENDPOINT": hub.base,
            "FLEXSERVE_IAP_URL": relay.url,
            "SSL_CERT_FILE": str(relay.ca_file),
            "NO_PROXY": "127.0.0.1,localhost",
            "HTTPS_PROXY": "http://127.0.0.1:9",
        }
        cloud.put_secret("hf-token", "hf_" + "sentinel" * 4)
        yield Site(project, cloud, server, environment, behaviour)
