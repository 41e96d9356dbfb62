"""Reads images in Amazon ECR as the operator: a manifest, and the image's own config (BatchGetImage, GetDownloadUrlForLayer)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.clouds.aws.session import NotThere
from infra.clouds.http import ask, client
from infra.image_facts import ImageFacts, of_config
from startup import manifest
from verdict.errors import BadConfig, CannotTell, NoAccess

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

ACTIONS = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
"""What the operator must be allowed on the image's repository; AWS's own repositories allow it to everybody who may at home."""


@dataclass(frozen=True)
class Repository:
    """A repository, and whose it is; no account is the operator's own."""

    name: str
    account: str = ""

    def parameters(self) -> dict[str, str]:
        """As ECR's calls name it."""
        return {"repositoryName": self.name, **({"registryId": self.account} if self.account else {})}


@dataclass(frozen=True)
class Manifest:
    """A manifest as it was pushed."""

    digest: str
    media_type: str
    body: bytes

    @property
    def problem(self) -> str:
        """Why SageMaker would not take it; empty when it does."""
        return manifest.problem(self.body, self.media_type)

    def document(self) -> Mapping[str, Any]:
        """What it says; nothing where it cannot be read."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def find(session: Session, repository: Repository, reference: str) -> Manifest | None:
    """The manifest of a tag or digest; None where there is none. Raises what ECR refuses with."""
    named = {"imageDigest" if reference.startswith("sha256:") else "imageTag": reference}
    try:
        found = session.call(
            "ecr", "batch_get_image", imageIds=[named], acceptedMediaTypes=list(manifest.ACCEPTED), **repository.parameters()
        )
    except NotThere:
        return None
    images = found.get("images") or []
    if not images:
        return None
    body = str(images[0].get("imageManifest", "")).encode()
    return Manifest(str(images[0]["imageId"]["imageDigest"]), str(images[0].get("imageManifestMediaType") or ""), body)


def read(session: Session, repository: Repository, top: Manifest, *, sleep: Callable[[float], None] = time.sleep) -> ImageFacts:
    """What the image says of itself; of an index, the image for SageMaker's machines, or which processors there are instead.

    The facts' digest is that of the image whose config was read. Raises `BadConfig` for what is not there, `CannotTell` for content
    that cannot be read or has not its digest, `NoAccess` (exit 5), `NoNetwork`.
    """
    document = top.document()
    found = top
    if "manifests" in document:
        images = {_platform(entry): str(entry.get("digest", "")) for entry in document["manifests"]}
        if manifest.PLATFORM not in images:
            return ImageFacts(top.digest, tuple(sorted({arch for _, arch in images} - {"unknown"})))
        inner = find(session, repository, images[manifest.PLATFORM])
        if inner is None:
            raise BadConfig(f"flexserve:image.name: {repository.name} has no {images[manifest.PLATFORM]}", way_out="push it again")
        found, document = inner, inner.document()
    digest = str((document.get("config") or {}).get("digest") or "")
    if not digest:
        raise CannotTell(f"{repository.name}@{found.digest} is no container image", way_out="check flexserve:image.name")
    return of_config(found.digest, _config(session, repository, digest, sleep))


def _config(session: Session, repository: Repository, digest: str, sleep: Callable[[float], None]) -> Mapping[str, Any]:
    """The blob that a manifest names as its config, from where ECR says that it lies."""
    what = f"the config of {repository.name}"
    try:
        answer = session.call("ecr", "get_download_url_for_layer", layerDigest=digest, **repository.parameters())
    except NotThere as error:
        raise CannotTell(f"{what} is not in ECR", why=error.what, way_out="push the image again") from error
    with client(follow_redirects=True) as http:  # signed for this blob alone; it is good for an hour, and never shown
        got = ask(http, "GET", str(answer["downloadUrl"]), sleep=sleep)
    if got.status_code in (401, 403):
        raise NoAccess(
            f"{what} may not be read",
            why=f"ECR named its place, which answers {got.status_code}",
            way_out="an endpoint policy for S3 or a proxy may be in between: allow the bucket prod-REGION-starport-layer-bucket",
        )
    if got.status_code >= 400:
        raise CannotTell(f"{what} cannot be read", why=f"its place answers {got.status_code}", way_out="try again")
    if f"sha256:{hashlib.sha256(got.content).hexdigest()}" != digest:
        raise CannotTell(f"{what} cannot be read", why=f"what came is not {digest}", way_out="try again")
    try:
        document = json.loads(got.content)
    except ValueError as error:
        raise CannotTell(f"{what} cannot be read", why=str(error)) from error
    if not isinstance(document, dict):
        raise CannotTell(f"{what} cannot be read", why="it is no object")
    return document


def _platform(entry: Mapping[str, Any]) -> tuple[str, str]:
    platform = entry.get("platform") or {}
    return str(platform.get("os") or "unknown"), str(platform.get("architecture") or "unknown")
