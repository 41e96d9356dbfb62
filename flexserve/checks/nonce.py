"""One chat completion that must hold a word nobody could have prepared: what *serving* means."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from verdict.errors import FlexserveError

PROMPT = "Repeat this word exactly and write nothing else: {nonce}"
MAX_TOKENS = 256  # room for a model that thinks before it answers
TIMEOUT_S = 120.0  # the first request after a boot may still compile


@dataclass(frozen=True)
class Answer:
    """What came back. `ok`: the nonce is in the answer's text (not in its thinking)."""

    nonce: str
    text: str
    model: str
    seconds: float
    tokens: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the nonce was answered."""
        return self.nonce in self.text


def new_nonce() -> str:
    """Twelve hexadecimal digits."""
    return secrets.token_hex(6)


def ask(url: str, *, nonce: str | None = None, timeout: float = TIMEOUT_S) -> Answer:
    """Ask the server at `url` (its root, or its `/v1`) for a chat completion. Raises `FlexserveError` when none comes back.

    Proxies of the environment are not used: the server is on loopback, behind the tunnel.
    """
    import httpx

    nonce = nonce or new_nonce()
    base = url.rstrip("/").removesuffix("/v1") + "/v1"
    started = time.monotonic()
    try:
        with httpx.Client(timeout=timeout, trust_env=False) as client:
            model = str(_json(client.get(f"{base}/models"))["data"][0]["id"])
            body = {
                "model": model,
                "messages": [{"role": "user", "content": PROMPT.format(nonce=nonce)}],
                "max_tokens": MAX_TOKENS,
                "temperature": 0,
            }
            document = _json(client.post(f"{base}/chat/completions", json=body))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FlexserveError("the server did not answer", why=_why(error), way_out=_way_out(error)) from error
    try:
        text = str(document["choices"][0]["message"].get("content") or "")
    except (LookupError, TypeError, AttributeError) as error:
        raise FlexserveError("the server's answer is not a chat completion", why=str(document)[:200]) from error
    tokens = (document.get("usage") or {}).get("completion_tokens")
    return Answer(nonce, text, model, time.monotonic() - started, tokens if isinstance(tokens, int) else None)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _way_out(error: Exception) -> str:
    import httpx

    if isinstance(error, httpx.ConnectError):
        return "open the tunnel there (flexserve tunnel -s STACK), or give the address of a server that is up"
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return "write the address as http://localhost:8000"
    return "flexserve status -s STACK says how the machine is, flexserve logs -s STACK what the server wrote"


def _json(response: Any) -> dict[str, Any]:
    """The body of a 200. Raises `FlexserveError` with the server's own words."""
    if response.status_code != 200:
        raise FlexserveError(f"the server answered {response.status_code}", why=response.text[:300])
    try:
        value = response.json()
    except ValueError as error:
        raise FlexserveError("the server's answer is not JSON", why=response.text[:200]) from error
    if not isinstance(value, dict) or ("data" in value and not value["data"]):
        raise FlexserveError("the server names no model", why=str(value)[:200])
    return value
