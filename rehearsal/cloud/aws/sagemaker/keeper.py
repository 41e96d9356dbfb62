"""One container, followed in a thread of its own: is it up, does it answer /ping, how often did it die, what does it say."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Sequence

from rehearsal.sagemaker.contracts import CannotPull, CannotStart, ContainerHost

EVERY_S, CALM_S = 0.3, 2.0
"""Real seconds between two looks, at a container that is not ready and at one that is."""
PING_S = 2.0
"""SageMaker's own limit for an answer to /ping."""


class Keeper:
    """Follows a container until it is stopped. `write` is given the whole lines that it said, in order."""

    def __init__(self, host: ContainerHost, write: Callable[[Sequence[str]], None]) -> None:
        self.host = host
        self._write = write
        self._changed = threading.Condition()
        self._said = 0
        self._saying = threading.Lock()
        self.state = "starting"  # running, cannot-pull, cannot-start, stopped
        self.why = ""
        self.healthy = False
        self.restarts = 0
        self._thread = threading.Thread(target=self._run, name="container", daemon=True)

    def start(self) -> None:
        """Start the container in the background."""
        self._thread.start()

    def wait(self, done: Callable[[Keeper], bool], seconds: float) -> bool:
        """Until it is so, in real time; whether it came."""
        with self._changed:
            return self._changed.wait_for(lambda: done(self), seconds)

    def settled(self) -> bool:
        """Something is known of it: it serves, died once, or never started."""
        return self.healthy or self.restarts > 0 or self.state in ("cannot-pull", "cannot-start", "stopped")

    def stop(self) -> None:
        """Stop the container; returns when it is gone, with its last lines written."""
        with self._changed:
            before, self.state, self.healthy = self.state, "stopped", False
            self._changed.notify_all()
        if before == "stopped":
            return
        self.host.stop()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(10)
        self.pump()

    def pump(self) -> None:
        """Write what it said since."""
        with self._saying:
            text = self.host.logs()
            end = text.rfind("\n") + 1
            if self.state in ("stopped", "cannot-start"):
                end = len(text)
            if end > self._said:
                lines, self._said = text[self._said : end].splitlines(), end
                self._write(lines)

    def _become(self, **values: object) -> None:
        with self._changed:
            if self.state == "stopped":
                return
            for name, value in values.items():
                setattr(self, name, value)
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            self.host.start()
        except CannotPull as error:
            return self._become(state="cannot-pull", why=str(error))
        except CannotStart as error:
            return self._become(state="cannot-start", why=str(error))
        self._become(state="running")
        self._write(())  # the stream is there from now on
        while self.state == "running":
            with contextlib.suppress(OSError, RuntimeError, TimeoutError):
                self._become(restarts=self.host.restarts(), healthy=self._ping())
                self.pump()
            with self._changed:
                self._changed.wait_for(lambda: self.state != "running", CALM_S if self.healthy else EVERY_S)

    def _ping(self) -> bool:
        try:
            with contextlib.closing(connection(self.host, PING_S)) as asked:
                asked.request("GET", "/ping")
                return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def connection(host: ContainerHost, seconds: float) -> http.client.HTTPConnection:
    """A connection to the container's port. Raises OSError."""
    asked = http.client.HTTPConnection("container", 8080, timeout=seconds)
    asked.sock = socket.socket(fileno=host.connect(8080))
    asked.sock.settimeout(seconds)
    return asked
