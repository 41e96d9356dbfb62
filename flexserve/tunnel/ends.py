"""Whether what a tunnel leads to has gone: its window closed, or the cloud took it back. The same for every kind of access."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from flexserve.tunnel.options import Options
from verdict.errors import Gone


async def gone(options: Options) -> Gone | None:
    """The error of a closed window or a reclaim, or None. The callback asks the cloud: it runs in a thread."""
    if options.expired is None:
        return None
    try:
        when = await asyncio.get_running_loop().run_in_executor(None, options.expired)
    except Gone as otherwise:
        return otherwise
    return None if when is None else Gone(f"expired at {when.astimezone():%H:%M}", why="the window closed")


async def until_gone(options: Options) -> Gone:
    """Wait for that end: the cloud is asked every `ask_s`, and at every look once the recorded end has passed.

    An idle tunnel would not notice otherwise: nothing of it breaks when the machine goes.
    """
    loop = asyncio.get_running_loop()
    asked = loop.time()
    while True:
        await asyncio.sleep(options.limits.look_s)
        over = options.expires_at is not None and time.time() >= options.expires_at.timestamp()
        if over or loop.time() - asked >= options.limits.ask_s:  # the second: a reclaim, or a clock of ours that is wrong
            asked = loop.time()
            with contextlib.suppress(Exception):  # a cloud that cannot be asked now is asked again
                if (end := await gone(options)) is not None:
                    return end


@asynccontextmanager
async def watched(options: Options, end: Callable[[Gone], None]) -> AsyncIterator[None]:
    """While the block lasts: `end` is called once when that end has come."""

    async def watch() -> None:
        end(await until_gone(options))

    task = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        task.cancel()
