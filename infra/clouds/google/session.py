"""Google's REST APIs as the operator: credentials, endpoints, retries, and the cloud's own time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.clock import CLOUD
from infra.clouds.google import errors
from infra.clouds.google import token as tokens
from infra.clouds.http import ask, client
from verdict.errors import FlexserveError, TimedOut

if TYPE_CHECKING:
    import httpx

OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
DEFAULTS = {
    "compute": "https://compute.googleapis.com/compute/v1/",
    "iam": "https://iam.googleapis.com/",
    "secretmanager": "https://secretmanager.googleapis.com/",
}
OPERATION_TRIES = 90
OPERATION_WAIT_S = 10.0


class NotThere(FlexserveError):
    """The cloud has no such thing (404)."""

    kind = "not-there"


def endpoint(api: str, environ: Mapping[str, str] = os.environ) -> str:
    """Base address of an API, with a slash at the end: gcloud's own override variable, else Google's."""
    return (environ.get(f"{OVERRIDE}{api.upper()}") or DEFAULTS[api]).rstrip("/") + "/"


def token(environ: Mapping[str, str] = os.environ) -> str:
    """An access token: from the environment when it is there, else from application default credentials. Raises `NoAccess`."""
    return tokens.given(environ) or tokens.from_google(environ)


class Session:
    """One operator, one process. Nothing is asked before the first call."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._environ, self._sleep = environ, sleep
        self._http = http
        self._token = ""
        self.date: datetime | None = None
        """When the cloud last answered, by its own clock."""

    def call(self, api: str, method: str, path: str, *, body: Any = None, **query: str) -> dict[str, Any]:
        """One request; the answer's JSON. Raises `NotThere` for 404, else what the error means, as far as it is known."""
        url = endpoint(api, self._environ) + path.lstrip("/")
        answer = self._send(method, url, query, body)
        if answer.status_code == 401 and not tokens.given(self._environ):
            self._token = ""  # it may have run out in a long wait
            answer = self._send(method, url, query, body)
        if answer.status_code == 404:
            raise NotThere(f"{path} is not there")
        if answer.status_code >= 400:
            raise errors.from_answer(answer.status_code, answer.content)
        return _document(answer, url)

    def pages(self, api: str, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Every page of a list."""
        page = ""
        while True:
            answer = self.call(api, "GET", path, **query, **({"pageToken": page} if page else {}))
            yield answer
            page = str(answer.get("nextPageToken") or "")
            if not page:
                return

    def finish(self, operation: Mapping[str, Any]) -> None:
        """Wait until a Compute operation is done. Raises what its error means, `TimedOut` when it never ends."""
        path = str(operation["selfLink"]).partition("/projects/")[2]
        current: Mapping[str, Any] = operation
        for _ in range(OPERATION_TRIES):
            if current.get("status") == "DONE":
                break
            current = self.call("compute", "POST", f"projects/{path}/wait")  # returns when done, or after two minutes
            if current.get("status") != "DONE":
                self._sleep(OPERATION_WAIT_S)
        else:
            raise TimedOut(f"operation {operation.get('name')} is still {current.get('status')}", way_out="look again later")
        problems = (current.get("error") or {}).get("errors") or []
        if problems:
            raise errors.from_words(str(problems[0].get("message", "")), str(problems[0].get("code", "")))

    def _send(self, method: str, url: str, query: Mapping[str, str], body: Any) -> httpx.Response:
        if self._http is None:
            self._http = client()
        self._token = self._token or token(self._environ)
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = ask(self._http, method, url, headers=headers, params=query, json=body, sleep=self._sleep)
        if "date" in answer.headers:
            self.date = CLOUD.hear(answer.headers["date"]) or self.date
        return answer


def _document(answer: httpx.Response, url: str) -> dict[str, Any]:
    """The answer's JSON. A network that answers in the cloud's place (a login page of a hotel) says something else."""
    try:
        document = answer.json() if answer.content else {}
    except ValueError:
        document = None
    if not isinstance(document, dict):
        way_out = "is this network behind a login page or a proxy? Then sign in there, or name the proxy in HTTPS_PROXY"
        raise FlexserveError(f"{url.partition('?')[0]} gave an answer that is not the cloud's", way_out=way_out)
    return document
