"""Where the relay is and how a session is asked for."""

from __future__ import annotations

import os
from urllib.parse import urlencode, urlsplit

from infra.access import Iap
from verdict.errors import BadConfig

DEFAULT_URL = "wss://tunnel.cloudproxy.app/v4"
URL_VARIABLE = "FLEXSERVE_IAP_URL"
SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
ORIGIN = "bot:iap-tunneler"


def relay_root(url: str | None = None) -> str:
    """The relay's root: the argument, else `FLEXSERVE_IAP_URL`, else Google's. A URL without a path gets `/v4`.

    Raises `BadConfig` unless it is a `wss` URL: a token never travels in the clear.
    """
    root = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    parts = urlsplit(root)
    if parts.scheme != "wss" or not parts.hostname:
        raise BadConfig(
            f"the relay's URL {root!r} cannot be used",
            why="it must be wss://HOST[:PORT][/PATH]: the access token travels on it",
            way_out=f"correct or unset {URL_VARIABLE}",
        )
    path = parts.path.rstrip("/") or "/v4"
    return f"wss://{parts.netloc}{path}"


def named(root: str, url: str | None = None) -> str:
    """The relay as messages name it: `tunnel.cloudproxy.app`, or with the variable that named it. `url`: the argument, if any."""
    variable = not url and os.environ.get(URL_VARIABLE)
    return urlsplit(root).netloc.rpartition("@")[2] + (f", from {URL_VARIABLE}" if variable else "")


def connect_url(root: str, access: Iap) -> str:
    """A new session to the machine's port."""
    return f"{root}/connect?" + urlencode(
        {
            "project": access.project,
            "port": access.port,
            "newWebsocket": "True",
            "zone": access.zone,
            "instance": access.instance,
            "interface": access.interface,
        }
    )


def reconnect_url(root: str, access: Iap, sid: str, received: int) -> str:
    """The same session on a new link; `received` is the bytes we have."""
    return f"{root}/reconnect?" + urlencode({"sid": sid, "ack": received, "newWebsocket": "True", "zone": access.zone})
