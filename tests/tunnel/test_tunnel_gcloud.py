"""The real gcloud on the same relay: it proves that the relay speaks the protocol that Google's own client speaks."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.tunnel.backend import stream

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


def environment(world, folder) -> dict[str, str]:
    """Its own configuration folder each time: after some hundreds of connections gcloud damages it."""
    token = folder / "token"
    token.write_text("a-token", encoding="ascii")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",  # else "Listening" stays in gcloud's buffer when stdout is a pipe
        "CLOUDSDK_CONFIG": str(folder / "config"),
        "CLOUDSDK_CORE_PROJECT": "demo-project",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_DISABLE_FILE_LOGGING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(world.relay.ca_file),
    }


def arguments(world, instance: str, *more: str) -> list[str]:
    return [
        "gcloud", "compute", "start-iap-tunnel", instance, "8000", "--zone=us-central1-a",
        f"--iap-tunnel-url-override={world.relay.url}", *more,
    ]  # fmt: skip


@contextmanager
def gcloud(world, folder, instance: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        arguments(world, instance, f"--local-host-port=127.0.0.1:{port}"),
        env=environment(world, folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline().decode()
        assert line == f"Listening on port [{port}].\n", process.stderr.read().decode()
        yield port
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_gcloud_transfers_both_ways_through_the_relay(world, tmp_path) -> None:
    with gcloud(world, tmp_path, "vm") as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(60)
            client.sendall(b"send 2000000\n")
            got = b"".join(iter(lambda: client.recv(65_536), b""))
            assert got == stream(2_000_000)
        upload = stream(300_000)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"sink 300000\n" + upload)
            assert client.recv(64).decode() == hashlib.sha256(upload).hexdigest()


def test_gcloud_resumes_after_4004_as_it_does_with_googles_relay(world, tmp_path) -> None:
    before = world.relay.resumes
    with gcloud(world, tmp_path, "vm-cl4004dn500000") as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(60)
        client.sendall(b"send 2000000\n")
        got = b"".join(iter(lambda: client.recv(65_536), b""))
    assert got == stream(2_000_000)
    assert world.relay.resumes == before + 1


@pytest.fixture
def compute() -> Iterator[str]:
    """The instance that gcloud looks up after a failed check."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"name": "vm", "status": "RUNNING", "networkInterfaces": [{"name": "nic0"}]}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/compute/v1/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("instance", "text"), [("vm-close4003", "4003"), ("vm-close4033", "4033"), ("vm-http403", "403")])
def test_gcloud_reads_the_relays_refusals(world, tmp_path, compute, instance, text) -> None:
    done = subprocess.run(
        arguments(world, instance, "--local-host-port=127.0.0.1:0"),
        env={**environment(world, tmp_path), "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": compute},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"Error while connecting [{text}" in done.stderr or f"Handshake status {text}" in done.stderr
