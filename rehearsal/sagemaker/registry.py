"""The registry behind ECR, in process: what machines pushed, read from docker-registry's own folders; AWS's base image.

docker-registry keeps a blob as `blobs/sha256/AB/HEX/data` and says what a repository holds by small files named `link`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from rehearsal.machine.images import ImageRegistry
from rehearsal.machine.room import MachineRoom
from rehearsal.sagemaker.base import AWS_IMAGES, REPOSITORY, Base
from rehearsal.sagemaker.contracts import Manifest
from verdict.errors import FlexserveError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class LocalRegistry:
    """`rehearsal.sagemaker.contracts.Images` over a room's registry. Raises `FlexserveError` for a sandbox: it keeps no layers."""

    def __init__(self, room: MachineRoom) -> None:
        if not isinstance(room.images, ImageRegistry):
            raise FlexserveError(
                "a sandbox runs no containers",
                why=room.why_sandbox,
                way_out="rehearse a SageMaker stack as root on Debian or Ubuntu",
            )
        self._images = room.images
        self._root = room.images.storage / "docker/registry/v2"

    def seed(self, tag: str, base: Base | None = None) -> str:
        """AWS's container as a repository of its account, under this tag; its digest, the same for the same code every time."""
        wanted = base or Base()
        return self._images.put(f"{AWS_IMAGES}/{REPOSITORY}", tag, wanted.config(), wanted.layer())

    def manifests(self, repository: str, account: str) -> Sequence[Manifest]:
        """The images of a repository, in the order that they were pushed; none for one that nothing was pushed to."""
        folder = self._folder(repository, account)
        tags = {place.parent.parent.name: place.read_text() for place in folder.glob("tags/*/current/link")}
        found = [self._manifest(place, tags) for place in folder.glob("revisions/sha256/*/link")]
        return sorted((manifest for manifest in found if manifest), key=lambda manifest: (manifest.pushed_at, manifest.digest))

    def blob(self, digest: str) -> bytes | None:
        """A layer or a configuration."""
        if not _DIGEST.fullmatch(digest):
            return None
        place = self._root / "blobs/sha256" / digest[7:9] / digest[7:] / "data"
        return place.read_bytes() if place.exists() else None

    def drop(self, repository: str, account: str, digest: str, tag: str = "") -> None:
        """Take an image away with its tags, or only its tag."""
        folder = self._folder(repository, account)
        for place in folder.glob("tags/*/current/link"):
            if place.read_text() == digest and tag in ("", place.parent.parent.name):
                shutil.rmtree(place.parent.parent)
        if not tag:
            shutil.rmtree(folder / "revisions/sha256" / digest.removeprefix("sha256:"), ignore_errors=True)

    def _folder(self, repository: str, account: str) -> Path:
        return self._root / "repositories" / account / repository / "_manifests"

    def _manifest(self, place: Path, tags: dict[str, str]) -> Manifest | None:
        digest = place.read_text()
        body = self.blob(digest)
        if body is None:
            return None
        document = json.loads(body)
        size = sum(int(layer.get("size", 0)) for layer in document.get("layers", ()))
        named = tuple(sorted(name for name, of in tags.items() if of == digest))
        return Manifest(digest, str(document.get("mediaType", "")), body, named, place.stat().st_mtime, size)
