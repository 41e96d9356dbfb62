"""What a caller may ask of a tunnel, and what it gets: the same for every kind of access."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from flexserve.tunnel.events import OnEvent, Stats
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.listener import HOST
from verdict.errors import FlexserveError


@dataclass(frozen=True)
class Options:
    """All optional. Callbacks that may ask a cloud (`expired`, `boot_phase`) run in a thread."""

    port: int = 0  # local; 0 for any free one
    wait_s: float = 0.0  # how long "nothing listens on the machine's port" is retried before it is an error
    token: str | Callable[[bool], Awaitable[str]] | None = None
    url: str | None = None  # the relay (IAP) or the cloud's endpoint
    ssl: tls.SSLContext | None = None
    proxy: str | None = None
    expires_at: datetime | None = None  # the recorded end of the window, to show and to know when to ask
    expired: Callable[[], datetime | None] | None = None
    """When the window closed, asked of the cloud; None if it has not. Raises `Gone` where it ended otherwise: a reclaim."""
    boot_phase: Callable[[], str | None] | None = None
    on_event: OnEvent | None = None
    ahead: bool = True  # IAP: open the next client's session in advance, one at a time
    limits: Limits = field(default_factory=Limits)


class Tunnel:
    """An open tunnel. `over` resolves with the error that ended it for good (expired, no permission any more)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.over: asyncio.Future[FlexserveError] = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str:
        """The server's root on loopback: `/health`, `/metrics`."""
        return f"http://{HOST}:{self.port}"

    @property
    def base_url(self) -> str:
        """What OpenAI clients call the base URL."""
        return f"{self.url}/v1"

    def stats(self) -> Stats:
        """Counters so far."""
        return Stats()
