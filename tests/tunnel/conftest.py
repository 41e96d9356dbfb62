"""A relay, a server behind it, and a tunnel for each test."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flexserve.tunnel.events import KINDS, Event
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options
from infra.access import Iap
from rehearsal.relay import Relay
from tests.tunnel.backend import Backend

SCRIPT = Path(__file__).with_name("run_tunnel.py")
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120  # a busy machine is many times slower
Started = Callable[..., "subprocess.Popen[bytes]"]
PATIENT = Limits()  # where nothing is to go wrong: a busy machine is many times slower
SHORT = Limits(
    link_s=5,
    confirm_s=0.5,
    open_s=1,
    resume_s=1,
    stall_s=0.4,
    linger_s=1,
    half_closed_s=1.5,
    spare_s=5,
    ack_after_s=0.05,
)


@dataclass
class World:
    """A backend, a relay before it, and what a tunnel needs to reach it."""

    backend: Backend
    relay: Relay
    context: ssl.SSLContext
    events: list[Event]

    def access(self, instance: str = "vm", port: int = 8000) -> Iap:
        return Iap("demo-project", "us-central1-a", instance, port)

    def options(self, limits: Limits = SHORT, **more) -> Options:
        more.setdefault("token", "a-token")
        return Options(url=self.relay.url, ssl=self.context, on_event=self.events.append, limits=limits, **more)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def last(self, kind: str) -> dict[str, object]:
        return next(dict(event.fields) for event in reversed(self.events) if event.kind == kind)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """Every event of the test; each is one that the table knows, with the fields that the table says."""
    told: list[Event] = []
    make = Event.__init__

    def noted(self: Event, *args, **more) -> None:
        make(self, *args, **more)
        told.append(self)

    monkeypatch.setattr(Event, "__init__", noted)
    yield told
    for event in told:
        kind, fields = KINDS[event.kind], set(event.fields)
        assert set(kind.fields) <= fields <= {*kind.fields, *kind.more}, event


@pytest.fixture(scope="session")
def shared() -> Iterator[tuple[Backend, Relay, ssl.SSLContext]]:
    """One relay for all tests: instances' names keep them apart."""
    with Backend() as backend, Relay(backend.connect, keep_s=5) as relay:
        yield backend, relay, ssl.create_default_context(cafile=str(relay.ca_file))


@pytest.fixture
def world(shared, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "FLEXSERVE_IAP_URL"):
        monkeypatch.delenv(name, raising=False)
    return World(*shared, events=[])


@pytest.fixture
def started(world: World) -> Iterator[Started]:
    running: list[subprocess.Popen[bytes]] = []
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FLEXSERVE_IAP_URL": world.relay.url,
        "SSL_CERT_FILE": str(world.relay.ca_file),
        "GOOGLE_OAUTH_ACCESS_TOKEN": "a-very-secret-token",
    }

    def start(*words: str, **more) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        running.append(subprocess.Popen([sys.executable, str(SCRIPT), *words], env=environment, **pipes))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


async def until(condition, seconds: float = 60.0) -> bool:
    """Whether it came true, soon."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return bool(condition())
