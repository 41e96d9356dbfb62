"""Open a tunnel in this process: `async with open_tunnel(access)`, or `with tunnel(access)` for synchronous callers."""

from __future__ import annotations

import asyncio
import importlib
import ssl as tls
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TypeVar, cast

from flexserve.tunnel.options import Options, Tunnel
from infra.access import Access
from verdict.errors import FlexserveError

_T = TypeVar("_T")
_Opener = Callable[[Access, Options], AbstractAsyncContextManager[Tunnel]]

OPENERS: dict[str, str] = {
    "iap": "flexserve.tunnel.iap.tunnel:open_iap",
    "sagemaker": "flexserve.tunnel.sagemaker.server:open_sagemaker",
    "ssm": "flexserve.tunnel.ssm.tunnel:open_ssm",
}
"""Access kind -> where its opener is; imported when it is asked for."""


@asynccontextmanager
async def open_tunnel(
    access: Access,
    *,
    port: int = 0,
    token: str | Callable[[bool], Awaitable[str]] | None = None,
    url: str | None = None,
    ssl: tls.SSLContext | None = None,
    options: Options | None = None,
) -> AsyncIterator[Tunnel]:
    """A port on loopback that reaches the server of `access`, until the block ends.

    It is checked before the block starts: a session through the relay was confirmed. That is not "serving": for that,
    ask the server. Raises `PortInUse`, `NoAccess` (no token or no permission), `Gone` (the window closed), `TimedOut`,
    `BadConfig`, or `FlexserveError` with what to do. `options` holds everything else; the arguments win over it.
    """
    chosen = options or Options()
    given = {"port": port or None, "token": token, "url": url, "ssl": ssl}
    chosen = replace(chosen, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    async with opener(access)(access, chosen) as opened:
        yield opened


def opener(access: Access) -> _Opener:
    """The opener for this kind of access."""
    where = OPENERS.get(access.kind)
    if where is None:
        raise FlexserveError(f"no tunnel for access of kind {access.kind}", way_out="this kind is not supported yet")
    module, _, name = where.partition(":")
    return cast(_Opener, getattr(importlib.import_module(module), name))


@contextmanager
def tunnel(
    access: Access,
    *,
    port: int = 0,
    token: str | Callable[[bool], Awaitable[str]] | None = None,
    url: str | None = None,
    ssl: tls.SSLContext | None = None,
    options: Options | None = None,
) -> Iterator[Tunnel]:
    """`open_tunnel` for a caller without an event loop: the tunnel runs in a thread of its own until the block ends.

    `on_event` is called in that thread. When the tunnel ends for good inside the block, its connections fail; the block
    is not interrupted, and `tunnel.over.result()` is the error.
    """
    from flexserve.tunnel.loops import new_loop  # 10 ms that a caller with a loop of its own does not need

    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever, name="flexserve-tunnel", daemon=True)
    thread.start()
    manager = open_tunnel(access, port=port, token=token, url=url, ssl=ssl, options=options)
    try:
        opened = _call(loop, manager.__aenter__())
        try:
            yield opened
        finally:
            _call(loop, manager.__aexit__(None, None, None))
    finally:
        _call(loop, _settle(loop))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _call(loop: asyncio.AbstractEventLoop, work: Awaitable[_T]) -> _T:
    async def run() -> _T:
        return await work

    future = asyncio.run_coroutine_threadsafe(run(), loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


async def _settle(loop: asyncio.AbstractEventLoop) -> None:
    """Let links finish their closing, briefly, so that nothing is left pending on the loop."""
    pending = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    await loop.shutdown_default_executor()
