"""Ends a command when we are killed outright, which no handler of ours sees.

A shell in a session of its own reads from a pipe whose other end only we hold. The kernel closes it with us, however we end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_WATCH = """\
read -r _
kill -s TERM -- "$1" || exit 0
left=50
while [ $left -gt 0 ] && kill -s 0 -- "$1"; do sleep 0.1; left=$((left - 1)); done
kill -s KILL -- "$1"
"""
"""SIGTERM, and five seconds later SIGKILL, as the tunnel itself does it. `-s`: dash takes no group behind `-TERM`."""


@asynccontextmanager
async def leashed(pid: int, *, group: bool) -> AsyncIterator[None]:
    """While the block lasts, `pid` (with `group` its whole process group) is ended when this process is no more."""
    reader, writer = os.pipe()
    nowhere = asyncio.subprocess.DEVNULL
    try:
        argv = ("/bin/sh", "-c", _WATCH, "flexserve-leash", f"-{pid}" if group else str(pid))
        watch = await asyncio.create_subprocess_exec(*argv, stdin=reader, stdout=nowhere, stderr=nowhere, start_new_session=True)
    finally:
        os.close(reader)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            watch.kill()  # before the pipe is closed: the number may be another process's by then
        await watch.wait()
        os.close(writer)
