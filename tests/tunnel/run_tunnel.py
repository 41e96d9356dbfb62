"""What `flexserve tunnel` does after it has read the stack's access; a process of its own for the tests.

`python run_tunnel.py INSTANCE [port=N] [exec=LINE] [json] [stdin] [remote=PORT] [expires=SECONDS] [reclaimed=SECONDS]
[unanswered] [quick] [brief]`
`expires`, `reclaimed`: what the cloud says once these have passed; `unanswered`: nobody answers for it. With `quick` it is asked
ten times a second; with `brief` a client that has closed its side is not waited for.
"""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from flexserve.output import Output
from flexserve.tunnel.command import Command, run
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options
from infra.access import Iap
from infra.clouds import http
from verdict.errors import FlexserveError, Reclaimed


def unanswered() -> None:
    """A cloud that nobody answers for: its own client, at a port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with http.client() as client:
        http.ask(client, "GET", f"http://127.0.0.1:{port}/", tries=1)


def main(instance: str, *words: str) -> int:
    given = dict(word.partition("=")[::2] for word in words)
    limits = Limits(look_s=0.1, ask_s=0.1) if "quick" in given else Limits()
    if "brief" in given:
        limits = replace(limits, half_closed_s=3, lull_s=0.5)
    options = Options(port=int(given.get("port", 0)), limits=limits)
    if "unanswered" in given:
        options = replace(options, expired=unanswered)
    over = next((word for word in ("expires", "reclaimed") if word in given), "")
    if over:
        ends = datetime.now(UTC) + timedelta(seconds=float(given[over]))

        def expired() -> datetime | None:
            if datetime.now(UTC) < ends:
                return None
            if over == "reclaimed":
                raise Reclaimed("the machine was reclaimed", why="no capacity any more", way_out="flexserve up -s tpu-v6e")
            return ends

        options = replace(options, expires_at=ends if over == "expires" else None, expired=expired)
    command = Command(options, exec=given.get("exec", ""), on_stdin="stdin" in given, json="json" in given)
    try:
        return run(Iap("demo-project", "us-central1-a", instance, int(given.get("remote", 8000))), command)
    except FlexserveError as error:
        taken = command.exec or command.on_stdin
        Output(command.json, lines=True, out=sys.stderr if taken else sys.stdout).error(error)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
