"""How the plugin is supervised, with a stand-in for it and a fake of the service. AWS's own: `test_tunnel_ssm_plugin.py`."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flexserve.tunnel.dial import tunnel
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options, Tunnel
from infra.access import Ssm
from rehearsal.ssm import Service
from tests.tunnel.backend import Backend, stream
from verdict.errors import FlexserveError, Gone, NoAccess

PLUGIN = """#!{python}
import json, os, socket, sys, threading
name, region, action, profile, request, endpoint = sys.argv[1:7]
response = json.loads(os.environ[name])
assert action == "StartSession" and response["TokenValue"] and response["TokenValue"] not in " ".join(sys.argv)
open({pids!r}, "a").write(str(os.getpid()) + "\\n")
server = socket.create_server(("127.0.0.1", int(json.loads(request)["Parameters"]["localPortNumber"][0])))
print("Starting session with SessionId: s-1\\nWaiting for connections...", flush=True)
def copy(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)
while True:
    client, _ = server.accept()
    if {once}:
        os._exit(0)
    far = socket.create_connection(("127.0.0.1", {backend}))
    for pair in ((client, far), (far, client)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""


@pytest.fixture
def service() -> Iterator[str]:
    def nowhere(target: str, port: int) -> socket.socket:
        raise ConnectionRefusedError

    with Service(
        nowhere, refused=lambda target: {"i-off": "TargetNotConnected", "i-no": "AccessDeniedException"}.get(target, "")
    ) as fake:
        yield fake.url


@pytest.fixture
def pids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-key")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Backend() as backend:
        install(tmp_path, backend.port)
        monkeypatch.setenv("BACKEND_PORT", str(backend.port))
        yield tmp_path / "pids"


def install(folder: Path, backend: int, once: bool = False) -> None:
    script = folder / "session-manager-plugin"
    script.write_text(PLUGIN.format(python=sys.executable, pids=str(folder / "pids"), backend=backend, once=once), encoding="utf-8")
    script.chmod(0o755)


def ask(port: int, size: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(f"send {size}\n".encode())
        return b"".join(iter(lambda: client.recv(65_536), b""))


def ended(opened: Tunnel) -> FlexserveError:
    """What ended the tunnel; it runs in a thread of its own."""
    for _ in range(1000):
        if opened.over.done():
            return opened.over.result()
        time.sleep(0.02)
    raise TimeoutError("the tunnel did not end")


def test_bytes_go_through_and_nothing_is_left(service, pids) -> None:
    with tunnel(Ssm("us-east-1", "i-0123456789abcdef0"), url=service) as opened:
        assert ask(opened.port, 500_000) == stream(500_000)
        assert opened.stats().bytes_down == 500_000
    pid = int(pids.read_text().split()[0])
    assert not Path(f"/proc/{pid}").exists()


def test_a_session_that_ended_is_started_again(service, pids) -> None:
    install(pids.parent, 0, once=True)
    with tunnel(Ssm("us-east-1", "i-0123456789abcdef0"), url=service) as opened:
        with pytest.raises(ConnectionResetError):  # the plugin ends under it
            ask(opened.port, 10)
        install(pids.parent, int(os.environ["BACKEND_PORT"]))
        for _ in range(50):  # until the end is noticed
            try:
                if ask(opened.port, 1000) == stream(1000):
                    break
            except OSError:
                continue
        assert opened.stats().resumes >= 1
    assert len(pids.read_text().split()) >= 2


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [("i-off", FlexserveError, "not connected"), ("i-no", NoAccess, "may not start a session")],
)
def test_the_cause_is_told(service, pids, target, error, text) -> None:
    with pytest.raises(error) as caught, tunnel(Ssm("us-east-1", target), url=service):
        pass
    assert text in caught.value.what


@pytest.mark.parametrize("how", ["window", "reclaim", "neither"])
def test_a_machine_that_has_gone_is_gone_and_not_out_of_reach(service, pids, how) -> None:
    def expired() -> datetime | None:
        if how == "reclaim":
            raise Gone("the machine was reclaimed", why="reclaimed at 03:04 UTC")
        return datetime(2026, 1, 2, 3, 4, tzinfo=UTC) if how == "window" else None

    with (
        pytest.raises(FlexserveError) as caught,
        tunnel(Ssm("us-east-1", "i-off"), options=Options(url=service, expired=expired)),
    ):
        pass
    said = {"window": "expired at ", "reclaim": "the machine was reclaimed", "neither": "i-off is not connected"}
    assert caught.value.what.startswith(said[how]) and isinstance(caught.value, Gone) == (how != "neither")


@pytest.mark.parametrize("how", ["window", "reclaim"])
def test_an_idle_tunnel_ends_when_the_machine_goes(service, pids, how) -> None:
    """No connection breaks: the cloud is asked now and then. A time at which it cannot be asked is no end."""
    answers = iter([None, OSError("no network"), None])

    def expired() -> datetime | None:
        answer = next(answers, "gone")
        if isinstance(answer, OSError):
            raise answer
        if answer == "gone" and how == "reclaim":
            raise Gone("the machine was reclaimed", why="reclaimed at 03:04 UTC")
        return datetime(2026, 1, 2, 3, 4, tzinfo=UTC) if answer == "gone" else None

    events: list[str] = []
    options = Options(
        url=service, expired=expired, on_event=lambda event: events.append(event.kind), limits=Limits(look_s=0.01, ask_s=0.02)
    )
    with tunnel(Ssm("us-east-1", "i-0123456789abcdef0"), options=options) as opened:
        gone = ended(opened)
    assert isinstance(gone, Gone)
    assert gone.what.startswith({"window": "expired at ", "reclaim": "the machine was reclaimed"}[how])
    assert events == ["listening", "unanswered", "answered", "expired", "stopped"]


def test_without_the_plugin(service, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FlexserveError) as caught, tunnel(Ssm("us-east-1", "i-1"), options=Options(url=service)):
        pass
    assert "session-manager-plugin" in caught.value.what
