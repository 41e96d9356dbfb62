"""AWS's own session-manager-plugin under our supervisor, against fakes of the service and of the agent (`rehearsal/ssm/`)."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from flexserve.tunnel.dial import tunnel
from flexserve.tunnel.listener import PortInUse
from flexserve.tunnel.options import Options
from flexserve.tunnel.ssm.plugin import PLUGIN
from infra.access import Ssm
from rehearsal.ssm import Service
from tests.tunnel.backend import Backend, stream
from tests.tunnel.openai_server import openai_server
from tools.setup.host import Host
from tools.setup.steps.plugin import built

ROOT = Path(__file__).resolve().parents[2]
ACCESS = Ssm("us-east-1", "i-0123456789abcdef0")


def found() -> Path | None:
    """The plugin of PATH, or the one that the set-up built."""
    here = shutil.which(PLUGIN)
    made = built(Host.here(ROOT))
    return Path(here) if here else made if made.is_file() else None


def without_plugin() -> None:
    """Skip; in CI, whose set-up builds it, fail."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(
        "no session-manager-plugin: python3 -m tools.setup session-manager-plugin"
    )


@pytest.fixture(scope="module", autouse=True)
def plugin_found() -> None:
    """The plugin is there."""
    if found() is None:
        without_plugin()


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Credentials, the plugin on PATH, and a folder where it may leave things; the folder."""
    leaves = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a-secret-key", "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"), "TMPDIR": str(leaves),
        "PATH": f"{found().parent}:{os.environ['PATH']}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    yield leaves
    shutil.rmtree(leaves)


@pytest.fixture
def backend() -> Iterator[Backend]:
    with Backend() as server:
        yield server


@pytest.fixture
def service(backend: Backend) -> Iterator[Service]:
    with Service(lambda _, port: backend.connect("vm", "zone", port)) as fake:
        yield fake


def plugins() -> list[int]:
    """Plugins that run for this test session."""
    running = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(PLUGIN.encode()) and ACCESS.instance_id.encode() in b" ".join(words):
            running.append(int(folder.name))
    return running


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def ask(port: int, command: str, upload: bytes = b"") -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(command.encode() + b"\n" + upload)
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_chat_through_it_plain_and_streamed() -> None:
    from openai import OpenAI

    from tests.tunnel.openai_server import MODEL

    with (
        openai_server() as server,
        Service(lambda *_: socket.create_connection(("127.0.0.1", server))) as fake,
        tunnel(ACCESS, url=fake.url) as opened,
        OpenAI(base_url=opened.base_url, api_key="none", max_retries=0, timeout=30) as client,
    ):
        asked = [{"role": "user", "content": "Repeat this code word and nothing else: tangerine"}]
        whole = client.chat.completions.create(model=MODEL, messages=asked)
        pieces = list(client.chat.completions.create(model=MODEL, messages=asked, stream=True))
    assert "tangerine" in whole.choices[0].message.content
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == whole.choices[0].message.content
    assert len(pieces) > 2


def test_every_byte_of_transfers_both_ways_and_at_once(service) -> None:
    upload = stream(100_000)
    with tunnel(ACCESS, url=service.url) as opened:
        assert ask(opened.port, "send 3000000") == stream(3_000_000)
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as client:
            client.sendall(b"sink 100000\n" + upload)
            assert client.recv(64).decode() == hashlib.sha256(upload).hexdigest()
        clients = [socket.create_connection(("127.0.0.1", opened.port), timeout=30) for _ in range(8)]
        for number, client in enumerate(clients):
            client.sendall(b"send %d\n" % (50_000 + number))
        for number, client in enumerate(clients):
            assert b"".join(iter(lambda: client.recv(65_536), b"")) == stream(50_000 + number)  # noqa: B023
            client.close()
    assert len(service.sessions) == 1


@pytest.mark.parametrize("size", [1016, 1017, 1018, 2041])
def test_a_last_newline_stays_one(size) -> None:
    """The plugin makes a carriage return of a newline that is alone in its piece; a header block of 1,017 bytes is such a case."""
    got: list[bytes] = []

    def machine(*_: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        Thread(target=lambda: got.append(ours.makefile("rb").read(size)), daemon=True).start()
        return theirs

    sent = stream(size - 1) + b"\n"
    with (
        Service(machine) as fake,
        tunnel(ACCESS, url=fake.url) as opened,
        socket.create_connection(("127.0.0.1", opened.port), timeout=30) as client,
    ):
        client.sendall(sent)
        assert until(lambda: bool(got))
    assert got == [sent]


def test_a_half_closed_client_gets_its_answer_and_one_that_is_gone_leaves_nothing(service, backend) -> None:
    with tunnel(ACCESS, url=service.url) as opened:
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as client:
            client.sendall(b"late 1000 300\n")
            client.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: client.recv(65_536), b"")) == stream(1000)
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as client:
            client.sendall(b"sendkeep 1000\n")
            assert client.recv(100)
        assert until(lambda: backend.open == 0)


def test_its_end_takes_the_plugin_the_session_and_its_files_along(service, operator) -> None:
    with tunnel(ACCESS, url=service.url) as opened:
        assert ask(opened.port, "send 10") == stream(10)
        assert len(plugins()) == 1
        (session,) = service.live
    assert plugins() == []
    assert session.over
    assert list(operator.iterdir()) == []


def test_a_long_temporary_folder_is_no_obstacle(service, operator, monkeypatch) -> None:
    long = operator / ("x" * 80)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr("tempfile.tempdir", None)
    with tunnel(ACCESS, url=service.url) as opened:
        assert ask(opened.port, "send 10") == stream(10)


def test_a_killed_supervisor_takes_the_plugin_along(service) -> None:
    program = (
        "import sys, time\nfrom flexserve.tunnel.dial import tunnel\nfrom infra.access import Ssm\n"
        f"with tunnel(Ssm('us-east-1', {ACCESS.instance_id!r}), url=sys.argv[1]):\n"
        "    print('open', flush=True)\n    time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", program, service.url]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as child:
        assert child.stdout.readline() == b"open\n"
        assert len(plugins()) == 1
        child.kill()
    assert until(lambda: plugins() == [])


def test_a_busy_port_is_told_before_any_session_is_started(service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(PortInUse) as caught, tunnel(ACCESS, port=port, url=service.url):
            pass
    assert f"(pid {os.getpid()})" in caught.value.what
    assert service.sessions == {}


def test_after_the_idle_limit_it_is_started_again(service) -> None:
    with tunnel(ACCESS, url=service.url) as opened:
        assert ask(opened.port, "send 10") == stream(10)
        service.idle_s = 0.2
        assert until(lambda: plugins() == [])
        service.idle_s = 1200
        assert ask(opened.port, "send 1000") == stream(1000)
        assert opened.stats().resumes == 1
    assert len(service.sessions) == 2
    assert service.live == []


def test_a_transfer_that_the_sessions_end_cuts_is_a_reset_and_no_clean_end(service) -> None:
    events = []
    with tunnel(ACCESS, options=Options(url=service.url, on_event=events.append)) as opened:
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as client:
            client.sendall(b"sendkeep 1000\n")
            assert len(client.recv(1000)) > 0
            service.idle_s = 0.2
            with pytest.raises(ConnectionResetError):
                while client.recv(65_536):
                    pass
        service.idle_s = 1200
    assert "reset" in [event.kind for event in events]


def test_a_broken_data_channel_is_resumed_by_the_plugin_itself(service) -> None:
    with tunnel(ACCESS, url=service.url) as opened, socket.create_connection(("127.0.0.1", opened.port), timeout=60) as client:
        client.sendall(b"echo\nbefore")
        assert client.recv(6) == b"before"
        (session,) = service.live
        service.cut()
        assert until(lambda: session.channels == 2, 60)  # what is sent before that can end the plugin's upload for good
        client.sendall(b"after")
        assert client.recv(5) == b"after"


def test_a_port_where_nothing_listens_closes_the_connection(service) -> None:
    with tunnel(Ssm("us-east-1", ACCESS.instance_id, 9), url=service.url) as opened:
        assert ask(opened.port, "send 10") == b""
