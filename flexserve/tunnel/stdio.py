"""One connection to a port of the machine over stdin and stdout: nothing else is written to either."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading

from flexserve.tunnel import ends
from flexserve.tunnel.options import Options
from infra.access import Access, Iap
from verdict.errors import BadConfig
from verdict.exit_codes import ExitCode

_CHUNK = 65_536


async def serve(access: Access, options: Options, stdin: int = 0, stdout: int = 1) -> int:
    """Relay descriptor `stdin` to the machine's port and back to `stdout`.

    0 when the machine's side ended, or when nobody reads stdout any more. The end of stdin alone is no end: the answer may
    still come. Raises the cause of any other end; `Gone` when the machine has gone, also while nothing is said.
    """
    if not isinstance(access, Iap):
        raise BadConfig(
            f"--on-stdin does not work with access of kind {access.kind}",
            way_out="use a port: flexserve tunnel --port 0",
        )
    from flexserve.tunnel.iap.tunnel import IapTunnel

    ours, theirs = socket.socketpair()
    tunnel = IapTunnel(access, options, None)
    said_all = threading.Event()
    threads = [
        threading.Thread(target=_copy_in, args=(stdin, theirs, stdout, said_all), daemon=True),
        threading.Thread(target=_copy_out, args=(theirs, stdout), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        async with ends.watched(options, tunnel.fail):
            await tunnel.serve_socket(ours)
            # The machine's side ended while ours had not: a server that says goodbye, or one whose machine is being taken away.
            if not said_all.is_set() and (gone := await ends.gone(options)):
                tunnel.fail(gone)
                raise gone
    finally:
        await tunnel.stop()
        await asyncio.to_thread(threads[1].join)  # the last bytes go to stdout as fast as they are read there
        theirs.close()
    return ExitCode.DONE


def _copy_in(source: int, sink: socket.socket, stdout: int, ended: threading.Event) -> None:
    """Until stdin ends; then until stdout's reader is gone too (ssh ends both), which ends the connection."""
    with contextlib.suppress(OSError):
        while data := os.read(source, _CHUNK):
            sink.sendall(data)
        ended.set()
        sink.shutdown(socket.SHUT_WR)
        watch = select.poll()
        watch.register(stdout, 0)  # errors only
        watch.poll()
        sink.shutdown(socket.SHUT_RDWR)


def _copy_out(source: socket.socket, sink: int) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(sink, view) :]
