"""The boot's record while it runs: one document a phase and one for the whole, on disk and in the cloud's guest attributes.

Telling the cloud never holds up or fails the boot: it happens in a thread, newest document of a key first come first served,
a few tries each.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from startup.onboard import places
from startup.onboard.curl import metadata

TRIES = 3
Tell = Callable[[str, str], bool]


def tell_guest_attributes(key: str, text: str) -> bool:
    """PUT one document. False when the metadata server did not take it."""
    answer = metadata(f"instance/guest-attributes/{places.NAMESPACE}/{key}", "-X", "PUT", data=text, seconds=3)
    return answer.status in (200, 204)


def tell_nobody(_key: str, _text: str) -> bool:
    """The documents on the disk are all there is."""
    return True


class Report:
    """Writes documents and lines. Safe to call from several threads."""

    def __init__(self, folder: Path, tell: Tell = tell_guest_attributes, console: Path = places.CONSOLE) -> None:
        self._folder = folder
        self._tell = tell
        self._console = console
        self._pending: dict[str, str] = {}
        self._changed = threading.Condition()
        self._busy = False
        threading.Thread(target=self._forward, daemon=True).start()

    def document(self, key: str, value: Mapping[str, object]) -> None:
        """Keep one document: on disk at once and whole (rename), in the cloud soon."""
        text = json.dumps(value, separators=(",", ":"))
        with self._changed:
            with suppress(OSError):  # a full disk: the cloud must hear of it all the more
                fresh = self._folder / f".{key}.new"
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(self._folder / key)
            self._pending[key] = text
            self._changed.notify_all()

    def line(self, text: str, *, loud: bool = False) -> None:
        """One line to the log (standard output); loud ones to the console too."""
        with self._changed, suppress(OSError):
            print(text, flush=True)
        if loud:
            with suppress(OSError), self._console.open("w", encoding="utf-8", errors="replace") as console:
                console.write(text + "\r\n")  # no console here: the journal has it

    def flush(self, seconds: float) -> None:
        """Wait until the cloud has everything, at most so long."""
        until = time.monotonic() + seconds
        with self._changed:
            while (self._pending or self._busy) and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _forward(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._pending:
                    self._changed.wait()
                key = next(iter(self._pending))
                text = self._pending.pop(key)
                self._busy = True
            for attempt in range(TRIES):
                if self._tell(key, text) or key in self._pending:
                    break
                time.sleep(0.5 * 2**attempt)
            else:
                print(f"flexserve: the metadata server did not take {key}", file=sys.stderr, flush=True)
