"""A request every 100 ms to the server at OPENAI_BASE_URL until a file appears; then how many were answered, as JSON.

`python -m rehearsal.steady FILE`: requests start at fixed times, whatever the ones before do; the file is looked for between two.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rehearsal.ask import ask, model_of

EVERY_S = 0.1
LONGEST_S = 540.0


@dataclass
class Told:
    """What became of the requests. `slowest` is seconds; `lost` says why, one text a request. `whole`: until the file was there."""

    sent: int = 0
    answered: int = 0
    slowest: float = 0.0
    whole: bool = False
    lost: list[str] = field(default_factory=list)


def main(stop: Path) -> Told:
    """Ask until the file is there, then wait for the answers that are under way."""
    told, lock, url = Told(), threading.Lock(), os.environ["OPENAI_BASE_URL"]
    threads: list[threading.Thread] = []
    model = model_of(url)
    began = time.monotonic()

    def one(number: int) -> None:
        started, nonce = time.monotonic(), f"n{number:06d}"
        try:
            wrong = "" if nonce in ask(url, nonce, model=model) else "the answer lacks the nonce"
        except (OSError, ValueError, KeyError) as error:
            wrong = f"{type(error).__name__}: {error}"
        with lock:
            told.slowest = max(told.slowest, round(time.monotonic() - started, 3))
            told.answered += not wrong
            told.lost += [wrong] if wrong else []

    while not stop.exists() and time.monotonic() - began < LONGEST_S:
        thread = threading.Thread(target=one, args=(told.sent,))
        thread.start()
        threads.append(thread)
        told.sent += 1
        time.sleep(max(0.0, began + told.sent * EVERY_S - time.monotonic()))
    told.whole = stop.exists()
    for thread in threads:
        thread.join(90)
    return told


if __name__ == "__main__":
    print(json.dumps(asdict(main(Path(sys.argv[1])))))
