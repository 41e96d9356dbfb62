"""The local port: bound on loopback before anything else, so that a busy port is known at once and by whom."""

from __future__ import annotations

import contextlib
import errno
import socket
from pathlib import Path

from verdict.errors import BadConfig, FlexserveError

HOST = "127.0.0.1"
_BACKLOG = 128
_LISTENING = "0A"


class PortInUse(FlexserveError):
    """Another process listens on the port."""

    kind = "port-in-use"


class PortForbidden(BadConfig):
    """A port below 1024 that this account may not take."""

    kind = "port-forbidden"


def bind(port: int) -> socket.socket:
    """A listening socket on loopback; port 0 lets the kernel choose. Clients that come early wait in its queue.

    Raises `PortInUse` with the holder, `BadConfig` for a port that cannot be.
    """
    if not 0 <= port <= 65535:
        raise BadConfig(f"{port} is not a port", way_out="a number from 1 to 65535, or 0 for any free one")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the last run's closed connections are no obstacle
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)  # now: two sockets may be bound to one port as long as neither listens
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            held = holder(port)
            raise PortInUse(
                f"port {port} on {HOST} is in use" + (f" by {held}" if held else ""),
                way_out="end that, or choose another with --port (0 takes any free one)",
            ) from None
        if error.errno == errno.EACCES:
            raise PortForbidden(f"port {port} needs administrator rights", way_out="choose one above 1023") from None
        raise
    return listening


def holder(port: int, proc: Path = Path("/proc")) -> str:
    """Who listens on the port, as `name (pid N)`; empty when the system does not say."""
    inodes = _listening_inodes(port, proc)
    if not inodes:
        return ""
    for process in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's, or just ended
            if any(_link(fd) in inodes for fd in (process / "fd").iterdir()):
                return f"{_name(process)} (pid {process.name})"
    return "another user's process"


def _link(fd: Path) -> str:
    """What the descriptor is; one that was closed meanwhile is nothing, and the process has others."""
    try:
        return str(fd.readlink())
    except FileNotFoundError:
        return ""


def _listening_inodes(port: int, proc: Path) -> set[str]:
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == _LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{columns[9]}]")
    return found


def _name(process: Path) -> str:
    """The program and, for an interpreter, what it runs: `python3 flexserve`. No arguments: they may be private."""
    words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    names = [Path(word).name for word in words[:2] if word and not word.startswith("-")]
    if names and names[0].startswith("python"):
        return " ".join(names)
    return names[0] if names else (process / "comm").read_text(encoding="utf-8").strip()
