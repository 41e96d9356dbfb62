"""Connect in a sandbox's network: `python -ISE dial.py PID ADDRESS PORT SECONDS FD`: sends the socket over descriptor FD.

Entering another user's namespace takes a process with one thread; that is why this is not a thread of the rehearsal.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys


def main(pid: str, address: str, port: int, seconds: float, back: int) -> int:
    """0 when sent; else the number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("user", "net"):
        if os.readlink(f"/proc/self/ns/{name}") == os.readlink(f"/proc/{pid}/ns/{name}"):  # noqa: PTH115
            continue
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if libc.setns(descriptor, 0):
            return ctypes.get_errno()
    channel = socket.socket()
    channel.settimeout(seconds)
    code = channel.connect_ex((address, port))
    if code == 0:
        channel.settimeout(None)
        with socket.socket(fileno=back) as answer:
            socket.send_fds(answer, [b"."], [channel.fileno()])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])))
