"""One streamed call in a thread of its own, its bytes handed to the event loop as they come: one hop a part, not two."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

from flexserve.tunnel.sagemaker.runtime import Runtime

_FIRST_S = 0.02
_AHEAD = 64  # parts that wait for a slow client before the thread waits too


class Pump:
    """`run` in a thread, `next` and `stop` in the loop that made it. `ident`: AWS's request id, known with the first part."""

    def __init__(self, runtime: Runtime, body: dict[str, Any], asked: str) -> None:
        self.ident = ""
        self._runtime, self._body, self._asked = runtime, body, asked
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._parts: list[bytes] = []
        self._error: Exception | None = None
        self._over = False
        self._room = threading.Semaphore(_AHEAD)
        self._stopped = threading.Event()
        self._taken = threading.Event()

    async def next(self) -> bytes:
        """What has come since the last call, at least one byte; empty at the end. Raises what the call raised, after its bytes."""
        while not self._parts and not self._over:
            self._ready.clear()
            await self._ready.wait()
        if self._parts:
            parts, self._parts = self._parts, []
            self._room.release(len(parts))
            self._taken.set()
            return b"".join(parts)
        if self._error is not None:
            raise self._error
        return b""

    def stop(self) -> None:
        """Nobody reads any more: the thread ends the call at its next part."""
        self._stopped.set()
        self._taken.set()
        self._room.release(_AHEAD)

    def run(self) -> None:
        """Make the call and hand its parts over. Blocking."""
        error: Exception | None = None
        try:
            self.ident, parts, stream = self._runtime.invoke(self._body, self._asked)
            for part in parts:  # read to its end, the connection goes back to the pool; closed, the next call makes a new one
                if part:
                    self._room.acquire()
                    if self._stopped.is_set():
                        stream.close()
                        break
                    self._tell(self._took, part)
                    self._taken.wait(_FIRST_S)  # the first: else this thread keeps the interpreter, and the token waits
        except Exception as raised:  # botocore's; told by `next`
            error = raised
        self._tell(self._ended, error)

    def _tell(self, call: Any, value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the tunnel ended
            self._loop.call_soon_threadsafe(call, value)

    def _took(self, part: bytes) -> None:
        self._parts.append(part)
        self._ready.set()

    def _ended(self, error: Exception | None) -> None:
        self._error, self._over = error, True
        self._ready.set()
