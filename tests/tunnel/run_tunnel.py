"""What `flexserve tunnel` does after it has read the stack's access; a process of its own for the tests.

`python run_tunnel.py INSTANCE [port=N] [exec=LINE] [json] [stdin] [expired] [expires=SECONDS]`
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from flexserve.tunnel.command import Command, run
from flexserve.tunnel.options import Options
from infra.access import Iap
from verdict.errors import FlexserveError


def main(instance: str, *words: str) -> int:
    given = dict(word.partition("=")[::2] for word in words)
    options = Options(port=int(given.get("port", 0)))
    if "expires" in given:
        ends = datetime.now(UTC) + timedelta(seconds=float(given["expires"]))
        options = replace(options, expires_at=ends, expired=lambda: ends if datetime.now(UTC) >= ends else None)
    command = Command(options, exec=given.get("exec", ""), on_stdin="stdin" in given, json="json" in given)
    try:
        return run(Iap("demo-project", "us-central1-a", instance), command)
    except FlexserveError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
