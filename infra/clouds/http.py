"""One way to ask an HTTP API: bounded, retried where a retry can help, with typed errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from infra.clouds.certificates import unusable
from verdict.errors import BadConfig, FlexserveError

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 20.0
TRIES = 4
RETRIED = frozenset({429, 500, 502, 503, 504})
LONGEST_WAIT_S = 20.0


class NoNetwork(FlexserveError):
    """The host did not answer."""

    kind = "no-network"


def client(**options: Any) -> httpx.Client:
    """A client with a limit on everything; proxies and CA bundles come from the usual variables. Raises `BadConfig`."""
    import httpx

    try:
        return httpx.Client(timeout=TIMEOUT_S, **options)
    except (httpx.InvalidURL, ValueError, OSError) as error:
        if (named := unusable()) is not None:
            raise named from error
        way_out = "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        raise BadConfig("a proxy or a set of certificates cannot be used", why=str(error), way_out=way_out) from error


def ask(
    http: httpx.Client,
    method: str,
    url: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    tries: int = TRIES,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    json: Any = None,
) -> httpx.Response:
    """Send, and send again after 429 and 5xx or a broken connection, at most `tries` times; the last answer, whatever it is.

    Waits as long as `Retry-After` says, at most 20 s. Raises `NoNetwork` when nobody answers, `BadConfig` for what is no address.
    """
    import httpx
    from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_attempt

    _check(url)
    asked = dict(params) if params else None  # httpx takes an empty one for "no query", also where the address has one
    retrying = Retrying(
        stop=stop_after_attempt(tries),
        wait=lambda state: _wait(state.attempt_number, state.outcome),
        sleep=sleep,
        retry=retry_if_exception_type(httpx.TransportError) | retry_if_result(lambda a: a.status_code in RETRIED),
    )
    try:
        return retrying(http.request, method, url, headers=dict(headers or {}), params=asked, json=json)
    except RetryError as error:
        last = error.last_attempt
        if last.exception() is None:
            answer: httpx.Response = last.result()
            return answer
        host = httpx.URL(url).host
        raise NoNetwork(f"{host} does not answer", why=str(last.exception()), way_out="check the network, then try again") from None


def _check(url: str) -> None:
    import httpx

    try:
        fine = httpx.URL(url).scheme in ("http", "https") and bool(httpx.URL(url).host)
    except httpx.InvalidURL:
        fine = False
    if not fine:
        raise BadConfig(f"{url!r} is no address", way_out="check the variable that names this endpoint, or unset it")


def _wait(attempt: int, outcome: Any) -> float:
    """Seconds before the next try."""
    if outcome is not None and outcome.exception() is None:
        asked = outcome.result().headers.get("retry-after", "")
        if asked.isdigit():
            return min(float(asked), LONGEST_WAIT_S)
    return min(0.5 * 2.0 ** (attempt - 1), LONGEST_WAIT_S)
