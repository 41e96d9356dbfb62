"""Asks a container registry which digest a tag points to, over the registry's HTTP API (OCI distribution specification)."""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from infra.clouds.http import ask, client
from verdict.errors import BadConfig, CannotTell, FlexserveError, NoAccess

if TYPE_CHECKING:
    import httpx

DEFAULT = "https://registry-1.docker.io"
OVERRIDE = "FLEXSERVE_REGISTRY_URL"
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Throttled(FlexserveError):
    """The registry or Hub counts requests, and this address has used up its share."""

    kind = "throttled"


def digest(
    repository: str, tag: str, *, environ: Mapping[str, str] = os.environ, sleep: Callable[[float], None] = time.sleep
) -> str:
    """`sha256:…` of the tag's manifest (of the list, for an image of several architectures).

    Raises `BadConfig` for a tag or repository that is not there, `NoAccess`, `Throttled`, `NoNetwork`.
    """
    base, name = place(repository, environ)
    with client(follow_redirects=True) as http:
        url = f"{base}/v2/{name}/manifests/{tag}"
        headers = {"Accept": MANIFESTS}
        answer = ask(http, "HEAD", url, headers=headers, sleep=sleep)
        if answer.status_code == 401:
            headers |= authorization(http, answer, sleep)
            answer = ask(http, "HEAD", url, headers=headers, sleep=sleep)
        if answer.status_code == 404:
            raise BadConfig(
                f"flexserve:image.name: {repository} has no tag {tag!r}", way_out=_nearest(http, base, name, tag, headers, sleep)
            )
        check(answer, repository)
        found: str = answer.headers.get("docker-content-digest", "")
    if not _DIGEST.fullmatch(found):
        raise CannotTell(f"the registry gave no digest for {repository}:{tag}", way_out="pin the image as NAME@sha256:…")
    return found


def place(repository: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Base address and name of a repository: `vllm/vllm-tpu` lies on Docker Hub, `host.tld/name` on that host."""
    override = environ.get(OVERRIDE, "").rstrip("/")
    first, slash, rest = repository.partition("/")
    named_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    name = rest if named_host else repository if slash else f"library/{repository}"
    return override or (f"https://{first}" if named_host else DEFAULT), name


def authorization(http: httpx.Client, answer: httpx.Response, sleep: Callable[[float], None]) -> dict[str, str]:
    """Follow the registry's challenge as an anonymous client."""
    challenge = dict(_CHALLENGE.findall(answer.headers.get("www-authenticate", "")))
    if "realm" not in challenge:
        raise NoAccess("the registry asks for credentials in an unknown way", way_out="pin the image as NAME@sha256:…")
    params = {k: challenge[k] for k in ("service", "scope") if k in challenge}
    token = ask(http, "GET", challenge["realm"], params=params, sleep=sleep)
    check(token, "the registry's token service")
    document = token.json()
    return {"Authorization": f"Bearer {document.get('token') or document.get('access_token')}"}


def check(answer: httpx.Response, what: str) -> None:
    """Raise what a refusal means: `Throttled`, `NoAccess`, or a plain error."""
    if answer.status_code == 429:
        raise Throttled(
            f"{what}: too many requests from this address",
            why="anonymous requests are counted by address",
            way_out="try again later, or pin the image as NAME@sha256:…",
        )
    if answer.status_code in (401, 403):
        raise NoAccess(f"{what} may not be read anonymously", way_out="check the name, or pin the image as NAME@sha256:…")
    if answer.status_code >= 400:
        raise FlexserveError(f"{what}: the registry answered {answer.status_code}", way_out="try again, or pin the image by digest")


def _nearest(http: httpx.Client, base: str, name: str, tag: str, headers: Mapping[str, str], sleep: Callable[[float], None]) -> str:
    """The nearest tag, when the registry lists them at the first try."""
    answer = ask(http, "GET", f"{base}/v2/{name}/tags/list", headers=headers, sleep=sleep, tries=1)
    tags = (answer.json().get("tags") or []) if answer.status_code == 200 else []
    close = difflib.get_close_matches(tag, tags, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else "see the repository's list of tags"
