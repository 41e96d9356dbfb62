"""Which HTTP proxy stands before the relay: `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`; by CONNECT only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from verdict.errors import BadConfig

_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@dataclass(frozen=True)
class Proxy:
    """A proxy's URL, which may hold a password, and the variable that named it; empty when it was an argument."""

    url: str
    variable: str = ""

    def __str__(self) -> str:
        """Without user and password: `proxy.test:3128, from HTTPS_PROXY`."""
        return urlsplit(self.url).netloc.rpartition("@")[2] + (f", from {self.variable}" if self.variable else "")


def proxy_for(url: str) -> Proxy | None:
    """The proxy for the relay's `url`, or None. Raises `BadConfig` for a scheme that is not http or https."""
    variable = next((name for name in _VARIABLES if os.environ.get(name)), "")
    if not variable:
        return None
    from urllib.request import proxy_bypass  # 20 ms to import: only when a proxy is set

    if proxy_bypass(urlsplit(url).netloc):
        return None
    found = os.environ[variable]
    return checked(found if "://" in found else f"http://{found}", variable)


def checked(proxy: str, variable: str = "") -> Proxy:
    """The proxy. Raises `BadConfig` for a scheme that is not http or https: the relay is reached by CONNECT."""
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfig(
            f"the proxy {parts.scheme}://{parts.hostname or ''} cannot be used" + (f" (from {variable})" if variable else ""),
            why="the relay is reached through HTTP proxies that allow CONNECT",
            way_out=f"set {variable or 'HTTPS_PROXY'} to http://HOST:PORT, or NO_PROXY to the relay's host",
        )
    return Proxy(proxy, variable)
