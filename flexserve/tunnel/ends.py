"""Whether what a tunnel leads to has gone: its window closed, or the cloud took it back. The same for every kind of access."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from flexserve.tunnel.apart import apart
from flexserve.tunnel.events import Event
from flexserve.tunnel.options import Options
from verdict.errors import FlexserveError, Gone


class Ends:
    """A tunnel's questions to its cloud. While it is watched a cloud that cannot be asked is told once a spell. It ends nothing."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._watched = False
        self._since: float | None = None  # the loop's time at which that was told
        self._silence = ""  # why it cannot be asked

    async def gone(self, within_s: float | None = None) -> Gone | None:
        """The error of a closed window or a reclaim. None where there is no such end, and where the cloud does not say.

        `within_s`: how long it may take to say so, `answer_s` if nothing is given.
        """
        if self._options.expired is None:
            return None
        limit = self._options.limits.answer_s if within_s is None else within_s
        try:
            async with asyncio.timeout(limit):
                when = await apart(self._options.expired)
        except Gone as otherwise:
            return otherwise
        except TimeoutError as error:
            said = str(error) or f"no answer within {limit:g} s"
            self._unanswered(FlexserveError(said, way_out="check this machine's network"))
            return None
        except Exception as error:  # a client's own, a bug's: nothing of it is an end
            self._unanswered(error)
            return None
        if when is not None:
            return Gone(f"expired at {when.astimezone():%H:%M}", why="the window closed")
        self._answered()
        return None

    def explained(self, error: FlexserveError) -> FlexserveError:
        """An error whose cause may lie with a machine that is no more, where the cloud does not say whether it is."""
        if self._silence:
            unknown = f"whether the machine still exists is not known: {self._silence}"
            error.why = f"{error.why}; {unknown}" if error.why else unknown
        return error

    async def until_gone(self) -> Gone:
        """Wait for that end: the cloud is asked every `ask_s`, and at every look once the recorded end has passed.

        An idle tunnel would not notice otherwise: nothing of it breaks when the machine goes.
        """
        options, loop = self._options, asyncio.get_running_loop()
        asked = loop.time()
        while True:
            await asyncio.sleep(options.limits.look_s)
            over = options.expires_at is not None and time.time() >= options.expires_at.timestamp()
            if over or loop.time() - asked >= options.limits.ask_s:  # the second: a reclaim, or a clock of ours that is wrong
                asked = loop.time()
                if (end := await self.gone()) is not None:
                    return end

    @asynccontextmanager
    async def watched(self, end: Callable[[Gone], None]) -> AsyncIterator[None]:
        """While the block lasts: `end` is called once when that end has come."""

        async def watch() -> None:
            end(await self.until_gone())

        self._watched = True
        task = asyncio.ensure_future(watch())
        try:
            yield
        finally:
            task.cancel()

    def _unanswered(self, error: Exception) -> None:
        cause = cause_of(error)
        self._silence = str(cause["why"])
        if self._watched and self._since is None:
            self._since = asyncio.get_running_loop().time()
            self._tell("unanswered", **cause)

    def _answered(self) -> None:
        self._silence = ""
        if self._since is not None:
            seconds, self._since = asyncio.get_running_loop().time() - self._since, None
            self._tell("answered", seconds=round(seconds, 1))

    def _tell(self, kind: str, **fields: object) -> None:
        if self._options.on_event is not None:
            self._options.on_event(Event(kind, fields))


def cause_of(error: Exception) -> dict[str, object]:
    """An error as an event's fields: `why`, and `way_out` where there is one."""
    if not isinstance(error, FlexserveError):
        return {"why": (str(error).splitlines() or [type(error).__name__])[0]}
    why = f"{error.what}: {error.why}" if error.why else error.what
    return {"why": why, **({"way_out": error.way_out} if error.way_out else {})}
