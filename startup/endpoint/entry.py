"""The image's entry point: reads the Hub token, then becomes AWS's own entry point with the same arguments.

The token is in the environment of that process and nowhere else: in no file, argument or line of the log.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from startup.endpoint.secret import Ask, Later, Never, ask, keys_of, region_of, value_of

SECRET = "FLEXSERVE_SECRET_ARN"  # names the secret; the model's environment holds no value
TOKEN = "HF_TOKEN"
PATIENCE_S = 300.0  # a fresh role is assumable after about 10 s, its rights hold after a minute or so
LONGEST_PAUSE_S = 10.0
SAID = "flexserve: secret"
GIVEN_UP = "given up"
"""How the lines in the log begin, and what the last of them says: who watches the endpoint looks for them."""


def environment_of(
    environment: Mapping[str, str],
    ask: Ask = ask,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = print,
) -> dict[str, str]:
    """The environment of the original entry point. Raises `Never` when the secret cannot be read."""
    arn = environment.get(SECRET, "")
    if not arn:
        return dict(environment)
    until, pause = clock() + PATIENCE_S, 0.5
    region = region_of(arn, environment)
    if not region:
        raise Never("it is named without a region, and the container knows none (AWS_REGION)")
    while True:
        try:
            value = value_of(arn, region, keys_of(environment, ask), ask)
            say(f"{SAID} {arn}: read")
            return {**environment, TOKEN: value}
        except Later as reason:
            if clock() + pause > until:
                raise Never(f"still so after {PATIENCE_S:.0f} s: {reason}") from None
            say(f"{SAID} {arn}: again in {pause:g} s: {reason}")
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Become `argv` (the original entry point and its arguments). Returns only when that is not possible: exit code 1 or 127."""
    try:
        wanted = environment_of(environment, say=_say)
    except Never as reason:
        _say(f"{SAID} {environment.get(SECRET, '')}: {GIVEN_UP}: {reason}")
        return 1
    try:
        os.execvpe(argv[0], list(argv), wanted)
    except (OSError, IndexError) as error:
        _say(f"flexserve: the entry point {' '.join(argv[:1])} cannot be run: {error}")
    return 127


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
