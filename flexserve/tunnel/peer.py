"""Whether the client of a loopback connection is gone for good or has only closed its side.

TCP shows both as the same FIN. The kernel knows: a socket that no process holds any more has no inode. Linux tells it
for one connection through a `sock_diag` netlink request, in microseconds and without rights. Elsewhere the answer is
None: unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import select
import socket
import struct
import sys

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST = 1  # NLM_F_REQUEST
_ERROR = 2  # NLMSG_ERROR
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST
_ANY_COOKIE = b"\xff" * 8
_INODE = _HEADER.size + 68  # inet_diag_msg: 4 bytes, a 48-byte socket id, four u32, then the inode


def pair_is_gone(descriptor: int) -> bool:
    """The same for a socket pair, where the system tells both sides' end apart from one side's."""
    watch = select.poll()
    watch.register(descriptor, 0)
    return any(events & select.POLLHUP for _, events in watch.poll(0))


def client_is_gone(client: tuple[str, int], server: tuple[str, int]) -> bool | None:
    """Whether no process holds the client's end of the IPv4 connection; both addresses are on this machine."""
    if sys.platform != "linux":
        return None
    ident = struct.pack("!HH", client[1], server[1])
    for host in (client[0], server[0]):
        ident += socket.inet_aton(host) + b"\0" * 12
    ident += struct.pack("=I", 0) + _ANY_COOKIE
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ident
    answer = b""
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
        netlink.settimeout(0.1)
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body)
        answer = netlink.recv(4096)
    if len(answer) < _HEADER.size + 4:
        return None
    kind = _HEADER.unpack_from(answer)[1]
    if kind == _ERROR:
        (code,) = struct.unpack_from("=i", answer, _HEADER.size)
        return True if code == -errno.ENOENT else None
    if kind != _BY_FAMILY or len(answer) < _INODE + 4:
        return None
    return bool(struct.unpack_from("=I", answer, _INODE)[0] == 0)


def is_gone(local: asyncio.BaseTransport) -> bool | None:
    """Whichever of the two fits the transport's socket."""
    ours, theirs = local.get_extra_info("sockname"), local.get_extra_info("peername")
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return client_is_gone(theirs, ours)
    return pair_is_gone(local.get_extra_info("socket").fileno())


def reset(local: asyncio.WriteTransport) -> None:
    """Close with RST: what is still in our buffers is dropped, and the client knows."""
    connected = local.get_extra_info("socket")
    if connected is not None:
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    local.abort()
