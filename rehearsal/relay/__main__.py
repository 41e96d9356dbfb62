"""The relay as a process: `python -m rehearsal.relay --to 127.0.0.1:9000` prints one JSON line and stays until SIGTERM."""

from __future__ import annotations

import argparse
import gc
import json
import signal
import socket
import threading
from pathlib import Path

from rehearsal.relay.server import Relay


def main() -> None:
    """Every instance and port leads to `--to`; faults by the instance's name."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal.relay", description=main.__doc__)
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="the machine's side of every connection")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, help="write when each message was sent and received, as JSON, at the end")
    chosen = parser.parse_args()
    host, _, port = chosen.to.rpartition(":")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def connect(*_: object) -> socket.socket:
        return socket.create_connection((host, int(port)), timeout=10)

    with Relay(connect, port=chosen.port, log_messages=chosen.log is not None) as relay:
        gc.freeze()  # what was imported stays: looking through it again would hold every session for some milliseconds
        print(json.dumps({"url": relay.url, "port": relay.port, "ca_file": str(relay.ca_file)}), flush=True)
        stop.wait()
        if chosen.log is not None:
            lines = [[when, start.decode("latin-1")] for when, start in relay.messages or []]
            chosen.log.write_text(json.dumps(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
