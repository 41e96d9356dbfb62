"""One connection to a port of the machine over stdin and stdout: nothing else is written to either."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from flexserve.tunnel.options import Options
from infra.access import Access, Iap
from verdict.errors import BadConfig, FlexserveError
from verdict.exit_codes import ExitCode

_CHUNK = 65_536
_UNREAD_S = 2.0  # after any other end than a clean one, nobody who does not read is waited for longer
_A = TypeVar("_A")
_T = TypeVar("_T")
_THROUGH = {"ssm": "an EC2 machine", "sagemaker": "a SageMaker endpoint"}


async def serve(access: Access, options: Options, stdin: int = 0, stdout: int = 1) -> int:
    """Relay descriptor `stdin` to the machine's port and back to `stdout`.

    0 when the machine's side ended, or when nobody reads stdout any more. The end of stdin alone is no end: the answer may
    still come. Raises the cause of any other end; `Gone` when the machine has gone, also while nothing is said.
    """
    if not isinstance(access, Iap):
        raise BadConfig(
            f"--on-stdin goes through IAP only, and {_THROUGH.get(access.kind, 'this stack')} is reached otherwise",
            way_out="use a port: flexserve tunnel --port 0",
        )
    from flexserve.tunnel.iap.tunnel import IapTunnel

    ours, theirs = socket.socketpair()
    tunnel = IapTunnel(access, options, None)
    relay = _Relay(stdin, stdout, theirs)
    relay.start()
    clean = False
    try:
        async with tunnel.ends.watched(tunnel.fail):
            await tunnel.serve_socket(ours)
            # The machine's side ended while ours had not: a server that says goodbye, or one whose machine is being taken away.
            if not relay.said_all.is_set() and (gone := await tunnel.ends.gone()):
                tunnel.fail(gone)
                raise gone
        clean = True
    finally:
        await tunnel.stop()
        await relay.written(patient=clean)
        theirs.close()
    if relay.failure is not None:
        raise relay.failure
    return ExitCode.DONE


class _Relay:
    """Two threads between the descriptors and one end of a socket pair. `failure`: what stdin or stdout could not do."""

    def __init__(self, stdin: int, stdout: int, sock: socket.socket) -> None:
        self._stdin, self._stdout, self._sock = stdin, stdout, sock
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._count = 0
        self.said_all = threading.Event()
        self.failure: FlexserveError | None = None

    def start(self) -> None:
        for work in (self._copy_in, self._copy_out):
            threading.Thread(target=work, daemon=True).start()

    async def written(self, *, patient: bool) -> None:
        """The last bytes go to stdout as fast as they are read there; not `patient`: as long as they are read at all."""
        while not self._ended.is_set():
            before = self._count
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _UNREAD_S)
            if not patient and self._count == before:
                return

    def _copy_in(self) -> None:
        """Until stdin ends; then until stdout's reader is gone too (ssh ends both), which ends the connection."""
        while True:
            try:
                data = _again(self._stdin, select.POLLIN, os.read, _CHUNK)
            except OSError as error:
                return self._failed("stdin cannot be read", error)
            try:
                if not data:
                    break
                self._sock.sendall(data)
            except OSError:
                return None
        self.said_all.set()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
            watch = select.poll()
            watch.register(self._stdout, 0)  # errors only
            watch.poll()
            self._sock.shutdown(socket.SHUT_RDWR)
        return None

    def _copy_out(self) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := self._sock.recv(_CHUNK):
                    if not self._write(memoryview(data)):
                        break
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._ended.set)

    def _write(self, view: memoryview) -> bool:
        while view:
            try:
                size = _again(self._stdout, select.POLLOUT, os.write, view)
            except BrokenPipeError:  # nobody reads it any more: the connection's end, whatever stdin does
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)
                return False
            except OSError as error:
                self._failed("stdout cannot be written", error)
                return False
            view = view[size:]
            self._count += size
        return True

    def _failed(self, what: str, error: OSError) -> None:
        self.failure = FlexserveError(what, why=error.strerror or str(error))
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


def _again(descriptor: int, event: int, call: Callable[[int, _A], _T], argument: _A) -> _T:
    """The call; where whoever gave us the descriptor had made it non-blocking, as soon as it can be done."""
    while True:
        try:
            return call(descriptor, argument)
        except BlockingIOError:
            watch = select.poll()
            watch.register(descriptor, event)
            watch.poll()
