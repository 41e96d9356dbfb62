"""Which HTTP proxy stands before the relay: `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`; by CONNECT only."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from verdict.errors import BadConfig

_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def proxy_for(url: str) -> str | None:
    """The proxy's URL for the relay's `url`, or None. Raises `BadConfig` for a scheme that is not http or https."""
    found = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    if not found:
        return None
    from urllib.request import proxy_bypass  # 20 ms to import: only when a proxy is set

    if proxy_bypass(urlsplit(url).netloc):
        return None
    return checked(found if "://" in found else f"http://{found}")


def checked(proxy: str) -> str:
    """`proxy` itself. Raises `BadConfig` for a scheme that is not http or https: the relay is reached by CONNECT."""
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfig(
            f"the proxy {parts.scheme}://{parts.hostname or ''} cannot be used",
            why="the relay is reached through HTTP proxies that allow CONNECT",
            way_out="set HTTPS_PROXY to http://HOST:PORT, or NO_PROXY to the relay's host",
        )
    return proxy
