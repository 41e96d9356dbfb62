"""Run a command until it works: again while its output shows a cause that may pass, at once over when it shows another."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from startup.onboard import causes


def pauses(longest: float = 60) -> Iterator[float]:
    """Seconds between tries: 1, 2, 4, … up to `longest`."""
    return (min(2.0 ** min(turn, 30), longest) for turn in itertools.count())


def sleep(seconds: float) -> None:
    """Wait by the `sleep` on PATH: who looks at the process list sees what a boot waits for."""
    subprocess.run(["sleep", f"{seconds:g}"], check=False)


def attempt(phase: str, argv: Sequence[str], *, patience: float, unknown: int = 3) -> None:
    """Raise `Failed` when it cannot work, or after `unknown` failures for no known cause. The phase's limit bounds the rest.

    `patience`: seconds, over all tries, that a `throttled` cause is waited for: by then the limit is one of hours, not of a burst.
    """
    strange, waited, met = 0, 0.0, Counter[str]()
    for pause in pauses():
        lines: deque[str] = deque(maxlen=60)
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            sys.stdout.write(line)
            sys.stdout.flush()
        status = process.wait()
        if status == 0:
            return
        found = causes.find(lines, phase)
        if found and not found[0].retry:
            raise causes.Failed(found[1])
        text = found[1] if found else f"{causes.say('failed', status=status)} ({argv[0]}: {causes.last_words(lines)})"
        strange += found is None
        if strange >= unknown:
            raise causes.Failed(text)
        met[found[0].id if found else ""] += 1
        if found and met[found[0].id] == found[0].tries:
            raise causes.Failed(f"{text} (tried {found[0].tries} times)")
        if found and found[0].throttled:
            pause = min(pause, patience - waited)
            if pause <= 0:
                raise causes.Failed(f"{text} (asked for {patience:g} s, image.throttled_wait)")
            waited += pause
        causes.note(text)
        print(f"again in {pause:g} s: {text}", flush=True)
        sleep(pause)
