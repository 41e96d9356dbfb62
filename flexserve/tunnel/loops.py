"""The event loop that a tunnel of its own runs on: uvloop, whose turns cost a token's way less than asyncio's own.

A tunnel inside a program that has a loop (`open_tunnel`) uses that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # no build of it for PyPy and Windows
    uvloop = None  # type: ignore[assignment]

_T = TypeVar("_T")


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop; asyncio's own where there is no other."""
    return asyncio.new_event_loop() if uvloop is None else uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run` on such a loop."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
