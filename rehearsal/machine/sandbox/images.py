"""The operator's registry where no docker-registry can be had: names, tags and digests, no layers."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from pathlib import Path

from rehearsal.machine.fakes.web import Reply, Request, serve
from rehearsal.machine.images import MANIFEST, application_layer


class SandboxImages:
    """Like `ImageRegistry`: `url`, `push`, `close`. The sandbox's docker reads `known` (references, a JSON list)."""

    def __init__(self, folder: Path) -> None:
        self.storage = folder
        self.known = folder / "images.json"
        self.known.write_text("[]")
        self._tags: dict[str, dict[str, bytes]] = {}
        self._server = serve("127.0.0.1", 0, self._answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="sandbox registry", daemon=True).start()

    def push(self, repository: str, tag: str = "latest") -> str:
        """A digest for the stand-in server under a repository and tag, the same for the same code every time."""
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "diff": application_layer()[1], "tag": tag}).encode()
        self._tags.setdefault(repository, {})[tag] = manifest
        digest = _digest(manifest)
        references = {*json.loads(self.known.read_text()), f"{repository}:{tag}", f"{repository}@{digest}"}
        self.known.write_text(json.dumps(sorted(references)))
        return digest

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: Request) -> Reply:
        if request.path == "/v2/":
            return Reply(200, b"{}", {"Content-Type": "application/json"})
        tags = re.fullmatch(r"/v2/(.+)/tags/list", request.path)
        if tags and tags[1] in self._tags:
            return Reply(200, json.dumps({"name": tags[1], "tags": sorted(self._tags[tags[1]])}).encode())
        match = re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", request.path)
        for tag, manifest in self._tags.get(match[1], {}).items() if match else ():
            if match and match[2] in (tag, _digest(manifest)):
                return Reply(200, manifest, {"Content-Type": MANIFEST, "Docker-Content-Digest": _digest(manifest)})
        return Reply(404, json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode())


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
