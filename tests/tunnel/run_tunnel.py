"""What `flexserve tunnel` does after it has read the stack's access; a process of its own for the tests.

`python run_tunnel.py INSTANCE [port=N] [exec=LINE] [json] [stdin] [remote=PORT] [expires=SECONDS] [reclaimed=SECONDS] [quick]`
`expires`, `reclaimed`: what the cloud says once these have passed; with `quick` it is asked ten times a second.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from flexserve.output import Output
from flexserve.tunnel.command import Command, run
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options
from infra.access import Iap
from verdict.errors import FlexserveError, Reclaimed


def main(instance: str, *words: str) -> int:
    given = dict(word.partition("=")[::2] for word in words)
    options = Options(port=int(given.get("port", 0)))
    over = next((word for word in ("expires", "reclaimed") if word in given), "")
    if over:
        ends = datetime.now(UTC) + timedelta(seconds=float(given[over]))

        def expired() -> datetime | None:
            if datetime.now(UTC) < ends:
                return None
            if over == "reclaimed":
                raise Reclaimed("the machine was reclaimed", why="no capacity any more", way_out="flexserve up -s tpu-v6e")
            return ends

        limits = Limits(look_s=0.1, ask_s=0.1) if "quick" in given else Limits()
        options = replace(options, expires_at=ends if over == "expires" else None, expired=expired, limits=limits)
    command = Command(options, exec=given.get("exec", ""), on_stdin="stdin" in given, json="json" in given)
    try:
        return run(Iap("demo-project", "us-central1-a", instance, int(given.get("remote", 8000))), command)
    except FlexserveError as error:
        taken = command.exec or command.on_stdin
        Output(command.json, lines=True, out=sys.stderr if taken else sys.stdout).error(error)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
