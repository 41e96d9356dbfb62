"""Requests to Google's APIs as the official provider sends them, and its texts for what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from rehearsal.providers.google.config import Config
from rehearsal.providers.google.waits import retry_waits
from rehearsal.providers.resource import ProviderError
from rehearsal.providers.values import Values
from rehearsal.providers.waits import Sleep

_RETRIED: Final = frozenset({429, 500, 502, 503})
_CLIENT_LIBRARY: Final = frozenset({"iam", "crm", "serviceusage"})  # these go through Google's own Go client


class GoogleError(ProviderError):
    """An answer that is an error. `status` is the HTTP status; the text is that of Google's Go client."""

    def __init__(self, status: int, answer: Any) -> None:
        self.status = status
        super().__init__(_text(status, answer))

    @property
    def not_found(self) -> bool:
        """Whether the thing is not there."""
        return self.status == 404


class Google:
    """Google's APIs for one configuration. Thread-safe; `sleep` is the clock that all waits run on."""

    def __init__(self, config: Config, sleep: Sleep) -> None:
        self.config = config
        self.sleep = sleep
        self._client = httpx.Client(timeout=60.0, trust_env=False)

    def call(self, api: str, method: str, path: str, query: Mapping[str, str] | None = None, body: Values | None = None) -> Values:
        """One request and its answer; 429, 500, 502 and 503 are tried again for 330 s. Raises `GoogleError`."""
        for pause in (*retry_waits(), None):
            try:
                return self._once(api, method, path, query or {}, body)
            except GoogleError as error:
                if error.status not in _RETRIED or pause is None:
                    raise
                self.sleep(pause)
        raise AssertionError("the last attempt either returns or raises")

    def _once(self, api: str, method: str, path: str, query: Mapping[str, str], body: Values | None) -> Values:
        asked = urlencode(sorted({**_common(api), **query}.items()))
        address = f"{_base(api, self.config.endpoint(api))}{path}?{asked}"
        headers = {"user-agent": "flexserve stand-in provider", "accept": "application/json"}
        if self.config.token:
            headers["authorization"] = f"Bearer {self.config.token}"
        try:
            answer = self._client.request(method, address, json=body, headers=headers)
        except httpx.HTTPError as error:
            raise ProviderError(f"{method.title()} {json.dumps(address)}: {error}") from error
        parsed = _parsed(answer)
        if answer.status_code >= 400:
            raise GoogleError(answer.status_code, parsed)
        return parsed if isinstance(parsed, dict) else {}


def _common(api: str) -> dict[str, str]:
    return {"alt": "json", "prettyPrint": "false"} if api in _CLIENT_LIBRARY else {"alt": "json"}


def _base(api: str, endpoint: str) -> str:
    """The Go client replaces the version in a base address by the one it was built for."""
    return f"{endpoint.rstrip('/').rpartition('/')[0]}/v1/" if api in _CLIENT_LIBRARY else endpoint


def _parsed(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text


def _text(status: int, answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict) or not error.get("message"):
        return f"googleapi: got HTTP response code {status} with body: {answer}"
    message, causes, details = error["message"], error.get("errors") or [], error.get("details")
    text = f"googleapi: Error {status}: {message}"
    if details:
        text += f"\nDetails:\n{json.dumps(details, indent=2, sort_keys=True)}\n"
    if len(causes) == 1 and causes[0].get("message") == message and not details:
        return f"{text}, {causes[0].get('reason', '')}"
    if causes:
        text += "\nMore details:\n" + "".join(
            f"Reason: {cause.get('reason', '')}, Message: {cause.get('message', '')}\n" for cause in causes
        )
    return text
