"""The host's image registry beside others: its port may be taken between the look and the start."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import pytest

from rehearsal.machine import assets, images
from rehearsal.machine.room import MachineRoom


class Other(http.server.BaseHTTPRequestHandler):
    """A registry of another run: it answers as ours would."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_port_that_another_run_has_taken_is_left_to_it(
    room: MachineRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, built = images.free_port, assets.locate()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        ports = iter([other.server_port])
        monkeypatch.setattr(images, "free_port", lambda: next(ports, None) or free())
        registry = images.ImageRegistry(tmp_path, built.root, built.images)
        try:
            assert not registry.url.endswith(f":{other.server_port}")
            assert registry.push("vllm/vllm-tpu", "v1").startswith("sha256:")
        finally:
            registry.close()
            other.shutdown()
