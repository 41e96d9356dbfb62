"""`flexserve tunnel`: open it, say so, and stay until Ctrl-C, the end of a command, or the end of the window."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TextIO

from flexserve.tunnel import loops, stdio
from flexserve.tunnel.dial import open_tunnel
from flexserve.tunnel.events import ALONE, Event, Stats
from flexserve.tunnel.leash import leashed
from flexserve.tunnel.options import Options, Tunnel
from flexserve.tunnel.say import Reporter
from infra.access import Access
from infra.duration import words
from verdict.errors import BadConfig
from verdict.exit_codes import ExitCode

DEFAULT_PORT = 8000
_LIVE_S = 0.5
_LOOK_S = 0.05
_CHILD_S = 5.0  # a command that ignores SIGTERM is killed after this long
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: the terminal was closed, or ssh has ended


EXEC_CODES = (
    ("CMD's own", "CMD ended by itself; 127 when the shell found no such program"),
    ("128 + N", "CMD was ended by signal N"),
    ("130", "Ctrl-C, SIGTERM or SIGHUP ended the tunnel; CMD got SIGTERM, and SIGKILL 5 s later"),
    ("8", "the window closed or the machine was reclaimed; CMD is ended in the same way"),
    (
        "1, 2, 5, 6, 8",
        "the tunnel never opened, or no connection can work any more (5: a permission); CMD was not begun, or is ended",
    ),
)
"""What a tunnel with `exec` ends with."""


@dataclass(frozen=True)
class Command:
    """What the operator asked for. `options.port` is `--port`; `exec` is one shell line (`--exec`)."""

    options: Options = field(default_factory=lambda: Options(port=DEFAULT_PORT))
    exec: str = ""
    on_stdin: bool = False
    json: bool = False


@dataclass(frozen=True)
class Streams:
    """Where text goes: results and events to `out`, progress to `err`."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)


def run(access: Access, command: Command, streams: Streams | None = None) -> int:
    """Run the tunnel; the exit code: 130 after Ctrl-C, SIGTERM or SIGHUP, the command's own with `exec`, 0 at the end of stdin.

    Raises what `open_tunnel` raises, and the error that ended the running tunnel: `Gone` (exit 8) when the window closed.
    """
    if command.on_stdin and command.exec:
        raise BadConfig("--on-stdin and --exec exclude each other", way_out="use one of them")
    streams = streams or Streams()
    return loops.run((_over_stdin if command.on_stdin else _serve)(access, command, streams))


async def _over_stdin(access: Access, command: Command, streams: Streams) -> int:
    # stdout is the connection's: events go to stderr; unless they are asked for, only what nothing else would tell.
    options = _telling(command.options, Reporter(streams.err, streams.err, json=command.json), all_of_it=command.json)
    stopping = asyncio.Event()
    with _signals(stopping):
        serving = asyncio.ensure_future(stdio.serve(access, options))
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if serving.done():
            return serving.result()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        return ExitCode.INTERRUPTED


async def _serve(access: Access, command: Command, streams: Streams) -> int:
    stopping = asyncio.Event()
    # With a command, stdout is the command's: events go to stderr.
    reporter = Reporter(streams.err if command.exec else streams.out, streams.err, json=command.json)
    with _signals(stopping):
        return await _stay(access, _telling(command.options, reporter), command, stopping, reporter)


def _telling(options: Options, reporter: Reporter, *, all_of_it: bool = True) -> Options:
    """The same options, their events told to `reporter` as well."""
    theirs = options.on_event

    def tell(event: Event) -> None:
        if all_of_it or event.kind in ALONE:
            reporter.event(event)
        if theirs is not None:
            theirs(event)

    return replace(options, on_event=tell)


async def _stay(access: Access, options: Options, command: Command, stopping: asyncio.Event, reporter: Reporter) -> int:
    manager = open_tunnel(access, options=options)
    opening = asyncio.ensure_future(manager.__aenter__())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((opening, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not opening.done():
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        return ExitCode.INTERRUPTED
    stopped.cancel()
    tunnel = opening.result()
    gc.freeze()  # what was imported stays: looking through it again would hold every stream for some milliseconds
    live = asyncio.ensure_future(_live(tunnel, options, reporter)) if not command.exec else None
    try:
        return await (_with_command(tunnel, command.exec, stopping) if command.exec else _until(tunnel, stopping))
    finally:
        if live is not None:
            live.cancel()
        reporter.clear()
        await manager.__aexit__(None, None, None)


async def _until(tunnel: Tunnel, stopping: asyncio.Event) -> int:
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((stopped, tunnel.over), return_when=asyncio.FIRST_COMPLETED)
    if tunnel.over.done():
        stopped.cancel()
        raise tunnel.over.result()
    return ExitCode.INTERRUPTED


async def _with_command(tunnel: Tunnel, line: str, stopping: asyncio.Event) -> int:
    """Run `line` with the tunnel's address in its environment; it ends with the tunnel, and the tunnel with it."""
    environment = {"OPENAI_API_KEY": "none", **os.environ, "OPENAI_BASE_URL": tunnel.base_url}  # clients insist on a key
    # On a terminal the command shares our process group: it may read the terminal, and Ctrl-C reaches all of it. Elsewhere it
    # gets a group of its own, so that all of it can be ended.
    own_group = not sys.stdin.isatty()
    child = await asyncio.create_subprocess_shell(line, env=environment, start_new_session=own_group)

    def send(number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number) if own_group else child.send_signal(number)

    async with leashed(child.pid, group=own_group):
        ended = asyncio.ensure_future(child.wait())
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait((ended, stopped, tunnel.over), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ended.done():
            send(signal.SIGTERM)
            try:
                await asyncio.wait_for(_all_ended(ended, child.pid if own_group else None), _CHILD_S)
            except TimeoutError:
                send(signal.SIGKILL)
                await ended
            if tunnel.over.done():
                raise tunnel.over.result()
            return ExitCode.INTERRUPTED
    code = ended.result()
    return code if code >= 0 else 128 - code


async def _all_ended(ended: asyncio.Future[int], group: int | None) -> None:
    """The command, and what it had started in its group: a shell ends at once where a child of it takes no SIGTERM."""
    await asyncio.shield(ended)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while group is not None:
            os.killpg(group, 0)
            await asyncio.sleep(_LOOK_S)


async def _live(tunnel: Tunnel, options: Options, reporter: Reporter) -> None:
    if not reporter.live_wanted:
        return
    while True:
        reporter.live(live_line(tunnel.port, tunnel.stats(), options.expires_at, datetime.now(UTC)))
        await asyncio.sleep(_LIVE_S)


def live_line(port: int, stats: Stats, expires_at: datetime | None, now: datetime) -> str:
    """`:8000  3 open, 17 in all  up 1.2 MB  down 33 MB  2h5m left`."""
    parts = [
        f":{port}",
        f"{stats.open} open, {stats.connections} in all",
        f"up {amount(stats.bytes_up)}",
        f"down {amount(stats.bytes_down)}",
    ]
    if stats.resumes:
        parts.append(f"{stats.resumes} resumed")
    if stats.resets:
        parts.append(f"{stats.resets} reset")
    if expires_at is not None:
        left = max(int((expires_at - now).total_seconds()), 0)
        parts.append(f"{words(left - left % 60 if left >= 60 else left)} left")
    return "  ".join(parts)


def amount(size: float) -> str:
    """Bytes for a person, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


@contextlib.contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP asks for an orderly end; the second is Python's own. One that is ignored stays so."""
    loop = asyncio.get_running_loop()
    stops = [number for number in _STOPS if signal.getsignal(number) is not signal.SIG_IGN]

    def asked() -> None:
        stopping.set()
        for number in stops:
            loop.remove_signal_handler(number)

    for number in stops:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in stops:
            loop.remove_signal_handler(number)
