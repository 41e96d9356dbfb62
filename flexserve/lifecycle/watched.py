"""An engine that is stopped once the target knows that what it makes will never serve.

Without it the engine waits as long as the cloud does: SageMaker takes up to an hour to give up a container that has said within
minutes why it ends. Only what happens in this run counts; so what is there is looked at before the engine is started. Targets that
cannot tell (`CanWatch`) are not asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flexserve.lifecycle.parts import Changes, Engine, EngineFailed
from infra.targets.protocol import CanWatch, DeploymentRef, LiveTarget, Watch
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
        eyes = _Eyes(self._stack, self._engine, self._read, live, self._say)
        eyes.start()
        try:
            changes = self._engine.up(**options)
        except Interrupted:
            raise
        except EngineFailed as error:
            eyes.end()
            found = eyes.found or eyes.look(error.diagnostics)
            if found is None:
                raise
            raise found from error
        finally:
            eyes.end()
        found = eyes.found or eyes.look()  # an update that was rolled back counts as one that went well
        if found is not None:
            raise found
        return changes


class _Eyes(threading.Thread):
    """Looks every two seconds, from before the engine is started on. `found`: what it found; it then asks the engine to end."""

    def __init__(
        self,
        stack: str,
        engine: Stoppable,
        read: Callable[[], DeploymentRef | None],
        live: CanWatch,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._stack, self._engine, self._read, self._live, self._say = stack, engine, read, live, say
        self._over = threading.Event()
        self._watch: Watch | None = None
        self._new = False  # whether the deployment's id is made by this run
        self.found: FlexserveError | None = None

    def start(self) -> None:
        """See what is there before the run, and begin."""
        try:
            ref = self._read()
            self._new = ref is None
            self._watch = self._live.watch(ref) if ref is not None else None
        except FlexserveError:  # the run then begins with the first look
            pass
        super().start()

    def run(self) -> None:
        """Until something is found, or it is told to end."""
        while not self._over.wait(LOOK_S):
            found = self.look()
            if found is None:
                continue
            self.found = found
            stands = self._watch.stands if self._watch is not None else ""
            self._say(f"{'' if stands else 'will not serve: '}{found.what}; the engine is asked to end")
            self._engine.stop()
            if not self._over.wait(PATIENCE_S):
                self._engine.stop(hard=True)
            return

    def look(self, said: Sequence[str] = ()) -> FlexserveError | None:
        """One look. What cannot be asked now is asked again later. `said`: what the engine failed with."""
        try:
            if self._watch is None:
                ref = self._read()
                if ref is None:
                    return None
                self._watch = self._live.watch(ref, new=self._new)
            found = self._watch.look(said)
        except FlexserveError:
            return None
        return told(self._stack, found, self._watch.stands) if found is not None else None

    def end(self) -> None:
        """No more looks."""
        self._over.set()
        if self is not threading.current_thread() and self.is_alive():
            self.join(PATIENCE_S)


def told(stack: str, error: FlexserveError, stands: str = "") -> FlexserveError:
    """The error with what is there after it, which the engine's end does not delete. `stands`: what serves on."""
    down = f"`flexserve down -s {stack}`"
    if stands:
        error.what, error.why = f"the update failed: {error.what}", "\n".join(filter(None, [error.why, stands]))
        ways = [
            error.way_out,
            f"then `flexserve up -s {stack}` again; nothing has to be deleted for that ({down} ends what serves)",
        ]
    else:
        ways = [error.way_out, f"{down} waits until the cloud lets go of it, and deletes it"]
    error.way_out = "; ".join(filter(None, ways))
    return error
