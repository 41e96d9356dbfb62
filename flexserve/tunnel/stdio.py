"""One connection over stdin and stdout, for ssh's ProxyCommand: nothing else is written to either."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from dataclasses import replace

from flexserve.tunnel.options import Options
from infra.access import Access, Iap
from verdict.errors import BadConfig
from verdict.exit_codes import ExitCode

_CHUNK = 65_536
_AFTER_END_S = 1.0  # stdin has ended: how long without data before the connection ends


async def serve(access: Access, options: Options, stdin: int = 0, stdout: int = 1) -> int:
    """Relay descriptor `stdin` to the machine's port and back to `stdout`; 0 when either side ended. Raises the cause else."""
    if not isinstance(access, Iap):
        raise BadConfig(
            f"--on-stdin does not work with access of kind {access.kind}",
            way_out="use a port: flexserve tunnel --port 0",
        )
    from flexserve.tunnel.iap.tunnel import IapTunnel

    ours, theirs = socket.socketpair()
    limits = replace(options.limits, half_closed_s=_AFTER_END_S)
    tunnel = IapTunnel(access, replace(options, limits=limits), None)
    threads = [
        threading.Thread(target=_copy_in, args=(stdin, theirs), daemon=True),
        threading.Thread(target=_copy_out, args=(theirs, stdout), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        await tunnel.serve_socket(ours)
    finally:
        await tunnel.stop()
        await asyncio.to_thread(threads[1].join, _AFTER_END_S)  # the last bytes are on their way to stdout
        theirs.close()
    return ExitCode.DONE


def _copy_in(source: int, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(source, _CHUNK):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _copy_out(source: socket.socket, sink: int) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(sink, view) :]
