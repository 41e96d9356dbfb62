"""The way from a stand-in to the rehearsal's own process: one JSON line out, one back, over a Unix socket."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Bridge:
    """Asks the rehearsal's process. Unix sockets by path cross network namespaces."""

    def __init__(self, path: Path) -> None:
        self._folder = os.open(path.parent, os.O_PATH)
        self._short = f"/proc/self/fd/{self._folder}/{path.name}"  # the path itself may be longer than a socket may have

    def call(self, what: str, **arguments: object) -> Any:
        """The answer to `what`. Raises LookupError or ValueError where the other side did, OSError when it is gone."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(self._short)
            channel.sendall(json.dumps({"what": what, **arguments}).encode() + b"\n")
            with channel.makefile("rb") as lines:
                reply = json.loads(lines.readline() or b'{"error": "gone"}')
        error = reply.get("error")
        if error:
            raise {"LookupError": LookupError, "ValueError": ValueError}.get(error, OSError)(reply.get("text", error))
        return reply["value"]

    def behaviour(self) -> Mapping[str, Any]:
        """What is wanted of the stand-ins now: `faults`, `holds`, `hub`."""
        value: Mapping[str, Any] = self.call("behaviour")
        return value

    def fault(self, part: str) -> str:
        """The fault armed for one part now; empty for none."""
        return str(self.behaviour()["faults"].get(part, ""))
