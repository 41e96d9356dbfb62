"""Reads an image's own config from its registry, by digest: nothing about it is guessed from its tag (OCI distribution)."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from infra.clouds import registry
from infra.clouds.http import ask, client
from infra.image_facts import ImageFacts, of_config
from verdict.errors import BadConfig, CannotTell

if TYPE_CHECKING:
    import httpx

Sleep = Callable[[float], None]


def read(
    repository: str, reference: str, processor: str, *, environ: Mapping[str, str] = os.environ, sleep: Sleep = time.sleep
) -> ImageFacts:
    """What the image says of itself; of an index, the image for `processor` (`arm64`), or which processors there are instead.

    `reference` is a tag or a digest. Raises `BadConfig` for one that is not there, `CannotTell` for content that does not have its
    digest, `NoAccess`, `Throttled`, `NoNetwork`.
    """
    base, name = registry.place(repository, environ)
    with client(follow_redirects=True) as http:
        get = _Getter(http, f"{base}/v2/{name}", repository, sleep)
        digest, manifest = get("manifests", reference)
        if "manifests" in manifest:
            images = {str((m.get("platform") or {}).get("architecture")): str(m["digest"]) for m in manifest["manifests"]}
            images.pop("unknown", None)  # attestations
            if processor not in images:
                return ImageFacts(digest, tuple(sorted(images)))
            digest, manifest = get("manifests", images[processor])
        if "config" not in manifest:
            raise CannotTell(f"{repository}@{digest} is no container image", way_out="check flexserve:image.name")
        _, config = get("blobs", str(manifest["config"]["digest"]))
    return of_config(digest, config)


class _Getter:
    """Manifests and blobs of one repository; what is asked for by its digest must have it."""

    def __init__(self, http: httpx.Client, base: str, repository: str, sleep: Sleep) -> None:
        self._http, self._base, self._repository, self._sleep = http, base, repository, sleep
        self._headers = {"Accept": registry.MANIFESTS}

    def __call__(self, kind: str, reference: str) -> tuple[str, Mapping[str, Any]]:
        url = f"{self._base}/{kind}/{reference}"
        answer = ask(self._http, "GET", url, headers=self._headers, sleep=self._sleep)
        if answer.status_code == 401:
            self._headers |= registry.authorization(self._http, answer, self._sleep)
            answer = ask(self._http, "GET", url, headers=self._headers, sleep=self._sleep)
        if answer.status_code == 404:
            raise BadConfig(f"flexserve:image.name: {self._repository} has no {reference}", way_out="check the name and the tag")
        registry.check(answer, self._repository)
        digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
        if reference.startswith("sha256:") and digest != reference:
            raise CannotTell(f"{self._repository}: the registry's answer is not {reference}", way_out="try again")
        try:
            document = json.loads(answer.content)
        except ValueError as error:
            raise CannotTell(f"{self._repository}: the registry's answer cannot be read", why=str(error)) from error
        if not isinstance(document, dict):
            raise CannotTell(f"{self._repository}: the registry's answer cannot be read")
        return digest, document
