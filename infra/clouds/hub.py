"""Asks the model Hub which commit a branch or tag points to."""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from infra.clouds.http import ask, client
from infra.clouds.registry import Throttled
from verdict.errors import BadConfig, CannotTell, FlexserveError, NoAccess

if TYPE_CHECKING:
    import httpx

DEFAULT = "https://huggingface.co"
OVERRIDE = "HF_ENDPOINT"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def commit(
    model: str, revision: str, *, environ: Mapping[str, str] = os.environ, sleep: Callable[[float], None] = time.sleep
) -> str:
    """The 40-digit commit of a model's branch or tag. No token is sent: what is read here is public even for gated models.

    Raises `BadConfig` for a model or revision that is not there, `NoAccess`, `Throttled`, `NoNetwork`.
    """
    base = environ.get(OVERRIDE, "").rstrip("/") or DEFAULT
    with client(follow_redirects=True) as http:
        answer = ask(http, "GET", f"{base}/api/models/{model}/revision/{quote(revision, safe='')}", sleep=sleep)
        if answer.status_code == 404:
            raise BadConfig(f"{model} has no revision {revision!r}", way_out=_nearest(http, base, model, revision, sleep))
        _check(answer, model)
        found = str(answer.json().get("sha", ""))
    if not _COMMIT.fullmatch(found):
        raise CannotTell(f"the Hub gave no commit for {model}@{revision}", way_out="pin model.revision to a commit")
    return found


def _check(answer: httpx.Response, model: str) -> None:
    if answer.status_code == 429:
        raise Throttled(
            "the Hub answers no more requests of this address for now", way_out="try again later, or pin model.revision"
        )
    if answer.status_code in (401, 403):
        raise NoAccess(
            f"{model} is not there, or is private", way_out="check flexserve:model.name, or pin model.revision to a commit"
        )
    if answer.status_code >= 400:
        raise FlexserveError(f"the Hub answered {answer.status_code} for {model}", way_out="try again, or pin model.revision")


def _nearest(http: httpx.Client, base: str, model: str, revision: str, sleep: Callable[[float], None]) -> str:
    """The nearest branch or tag, when the Hub lists them at the first try."""
    answer = ask(http, "GET", f"{base}/api/models/{model}/refs", sleep=sleep, tries=1)
    if answer.status_code != 200:
        return "check flexserve:model.name and its revision"
    document = answer.json()
    names = [str(ref["name"]) for group in ("branches", "tags") for ref in document.get(group) or []]
    close = difflib.get_close_matches(revision, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else f"one of {', '.join(sorted(names)[:8])}"
