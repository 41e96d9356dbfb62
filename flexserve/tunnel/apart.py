"""A blocking call in a thread that nobody waits for at the end.

An executor's threads would hold up a tunnel that was told to stop, for as long as a cloud takes not to answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def apart(call: Callable[[], _T]) -> _T:
    """What the call gives or raises. Cancelled, or after the loop has ended, what it brings is dropped."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(value: _T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value, error = None, None
        try:
            value = call()
        except Exception as raised:
            error = raised
        except BaseException as raised:  # an exit is this thread's own: it must not end the loop that waits
            error = RuntimeError(f"{type(raised).__name__}: {raised}")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="flexserve-apart", daemon=True).start()
    return await done
