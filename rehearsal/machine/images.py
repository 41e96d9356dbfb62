"""Container images without an engine: a registry on this host's loopback, filled over its own HTTP API.

The machines' registries serve the same folder, so what is pushed here is what they pull, under the same digest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import secrets
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Set
from pathlib import Path
from urllib.parse import quote

from rehearsal.machine import spawn
from rehearsal.machine.fakes import registry as server

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
VERSION = "0.32.0"
TRIES, START_S = 4, 60
APPLICATION = Path(__file__).parent / "vllm"
COMMAND = (
    b'#!/bin/sh\nPYTHONPATH=/opt/vllm PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 -S -m rehearsal.machine.vllm.server "$@"\n'
)
OPTIONS = Path(__file__).parents[2] / "catalog" / "vllm-0.32-options.json"


class ImageRegistry:
    """docker-registry on a free loopback port. `url` is its base; `push` returns the digest that a stack pins."""

    def __init__(self, folder: Path, root: Path, layer: Path) -> None:
        self.storage = folder / "storage"
        self.storage.mkdir(parents=True, exist_ok=True)
        self._layer = layer
        self._mark = secrets.token_hex(8)
        for _ in range(TRIES):
            self.url = f"http://127.0.0.1:{free_port()}"
            self._process = self._start(root, folder)
            if self._ready():
                return
            self.close()
        raise RuntimeError(f"the image registry did not start; {folder / 'host-registry.log'} says why")

    def _start(self, root: Path, folder: Path) -> subprocess.Popen[bytes]:
        argv = server.command(root, self.storage, self.url.removeprefix("http://"), folder, "host-registry", self._mark)
        return spawn.spawn(["setpriv", "--pdeathsig", "KILL", *argv], server.ENVIRONMENT, folder / "host-registry.log")

    def push(self, repository: str, tag: str = "latest") -> str:
        """The stand-in for vLLM under a repository and tag; its digest, the same for the same code every time."""
        version = tag.removeprefix("v") if tag[:1] == "v" else VERSION
        config = {
            "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", f"STAND_IN_VERSION={version}"],
            "Cmd": ["/bin/bash"],
            "WorkingDir": "/workspace",
            "Labels": {"flexserve.stand-in": "vllm", "flexserve.version": version},
            **({"Entrypoint": ["vllm", "serve"], "Cmd": None} if repository.endswith("vllm-openai") else {}),
        }
        return self.put(repository, tag, config, application_layer())

    def put(self, repository: str, tag: str, config: Mapping[str, object], *layers: tuple[bytes, str]) -> str:
        """An image of the base layer and `layers` (packed bytes, digest of the unpacked tar); its digest."""
        base = json.loads((self._layer / "layer.json").read_text())
        rootfs = {"type": "layers", "diff_ids": [base["diff_id"], *(diff_id for _, diff_id in layers)]}
        document = {"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs}
        blobs = [
            json.dumps(document, sort_keys=True).encode(),
            (self._layer / "layer.tar.gz").read_bytes(),
            *(p for p, _ in layers),
        ]
        described = [
            {"mediaType": kind, "size": len(blob), "digest": self._blob(repository, blob)}
            for kind, blob in zip((CONFIG, *(LAYER for _ in blobs[1:])), blobs, strict=True)
        ]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
        body = json.dumps(manifest).encode()
        self._call("PUT", f"/v2/{repository}/manifests/{tag}", body, {"Content-Type": MANIFEST})
        return _sha(body)

    def close(self) -> None:
        """Stop serving."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _blob(self, repository: str, data: bytes) -> str:
        digest = _sha(data)
        try:
            self._call("HEAD", f"/v2/{repository}/blobs/{digest}")
        except urllib.error.HTTPError:
            place = self._call("POST", f"/v2/{repository}/blobs/uploads/", b"")["Location"]
            target = f"{place}{'&' if '?' in place else '?'}digest={quote(digest)}"
            self._call("PUT", target, data, {"Content-Type": "application/octet-stream"})
        return digest

    def _call(self, method: str, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> dict[str, str]:
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(answer.headers)

    def _ready(self) -> bool:
        """Whether it answers. False when it ended, or when another's server answers: the port was taken in between."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                return {k.lower(): v for k, v in self._call("GET", "/v2/").items()}.get(server.MARK.lower()) == self._mark
            except urllib.error.HTTPError:
                return False
            except OSError:
                time.sleep(0.02)
        return False


def free_port() -> int:
    """A port on loopback that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def application_layer() -> tuple[bytes, str]:
    """The layer with the stand-in server: packed bytes, and the digest of the unpacked tar."""
    package = "opt/vllm/rehearsal/machine/vllm"
    files = {f"{package}/{path.name}": path.read_bytes() for path in sorted(APPLICATION.glob("*.py"))}
    files |= {"opt/vllm/rehearsal/__init__.py": b"", "opt/vllm/rehearsal/machine/__init__.py": b""}
    files |= {"opt/vllm/options.json": OPTIONS.read_bytes(), "usr/local/bin/vllm": COMMAND}
    return packed(files, {"usr/local/bin/vllm"}, {"workspace"})


def packed(files: Mapping[str, bytes], programs: Set[str] = frozenset(), empty: Set[str] = frozenset()) -> tuple[bytes, str]:
    """A layer of these files, `programs` of them executable, and of `empty` folders. No clock, no host in it."""
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."} | empty
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in sorted(folders - {"usr", "usr/local", "usr/local/bin"}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755 if name in programs else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), 6, mtime=0), _sha(plain.getvalue())


def _sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
