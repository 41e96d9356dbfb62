"""An engine that is stopped once the target knows that what it makes will never serve.

Without it the engine waits as long as the cloud does: SageMaker takes up to an hour to give up a container that has said within
minutes why it ends. Targets that cannot tell (`CanWatch`) are not asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from flexserve.lifecycle.parts import Changes, Engine, EngineFailed
from infra.targets.protocol import CanWatch, DeploymentRef, LiveTarget
from verdict.errors import FlexserveError, Interrupted

LOOK_S = 2.0
PATIENCE_S = 60.0  # that the engine gets to end by itself after it was asked to


class Stoppable(Engine, Protocol):
    """An engine that can be asked to end while it works."""

    def stop(self, *, hard: bool = False) -> None:
        """Ask it to finish and record what it does, or (`hard`) end it. Nothing runs: nothing happens."""


class WatchedEngine:
    """The engine of one stack, and somebody who looks at what it makes."""

    def __init__(
        self,
        stack: str,
        engine: Stoppable,
        read: Callable[[], DeploymentRef | None],
        live: Callable[[DeploymentRef | None], LiveTarget],
        say: Callable[[str], None],
    ) -> None:
        self._stack, self._engine, self._read, self._live, self._say = stack, engine, read, live, say

    def preview(self) -> Changes:
        """As the engine's."""
        return self._engine.preview()

    def destroy(self) -> Changes:
        """As the engine's."""
        return self._engine.destroy()

    def up(self, **options: Any) -> Changes:
        """As the engine's; raises what the target found instead of the engine's own error, or after it ended well all the same."""
        live = self._live(None)
        if not isinstance(live, CanWatch):
            return self._engine.up(**options)
        watch = _Watch(self._engine, self._read, live, self._say)
        watch.old = watch.look() is not None
        watch.start()
        try:
            changes = self._engine.up(**options)
        except Interrupted:
            raise
        except EngineFailed as error:
            watch.end()
            found = watch.found or watch.news()
            if found is None:
                raise
            raise self._told(found) from error
        finally:
            watch.end()
        found = watch.found or watch.news()  # an update that was rolled back counts as one that went well
        if found is not None:
            raise self._told(found)
        return changes

    def _told(self, error: FlexserveError) -> FlexserveError:
        """The error with what is still there, which the engine's end does not delete."""
        remove = f"`flexserve down -s {self._stack}` waits until the cloud lets go of it, and deletes it"
        error.way_out = f"{error.way_out}; {remove}" if error.way_out else remove
        return error


class _Watch(threading.Thread):
    """Looks every two seconds. `found`: what it found; it then asks the engine to end.

    `old`: what was found before the engine began, of an update that failed then, is no news, and stays none until a look has found
    nothing: what moves again is told anew.
    """

    def __init__(
        self, engine: Stoppable, read: Callable[[], DeploymentRef | None], live: CanWatch, say: Callable[[str], None]
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._engine, self._read, self._live, self._say = engine, read, live, say
        self._over = threading.Event()
        self._ref: DeploymentRef | None = None
        self.found: FlexserveError | None = None
        self.old = False

    def run(self) -> None:
        """Until something is found, or it is told to end."""
        while not self._over.wait(LOOK_S):
            found = self.news()
            if found is None:
                continue
            self.found = found
            self._say(f"will not serve: {found.what}; the engine is asked to end")
            self._engine.stop()
            if not self._over.wait(PATIENCE_S):
                self._engine.stop(hard=True)
            return

    def news(self) -> FlexserveError | None:
        """One look, without what is old."""
        found = self.look()
        self.old = self.old and found is not None
        return None if self.old else found

    def look(self) -> FlexserveError | None:
        """One look. What cannot be asked now is asked again later."""
        try:
            self._ref = self._ref or self._read()
            return self._live.watch(self._ref) if self._ref is not None else None
        except FlexserveError:
            return None

    def end(self) -> None:
        """No more looks."""
        self._over.set()
        if self is not threading.current_thread() and self.is_alive():
            self.join(PATIENCE_S)
