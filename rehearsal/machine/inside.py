"""Reaching into a running machine: a socket made in its network."""

from __future__ import annotations

import ctypes
import os
import socket
import threading

CLONE_NEWNET = 0x40000000


def connect(pid: int, address: str, port: int, timeout: float) -> int:
    """A connected TCP socket's descriptor, made in the network namespace of `pid`.

    A socket stays in the namespace it was made in; the thread that entered it is thrown away. Raises what connect raises,
    ConnectionRefusedError when the machine is gone.
    """
    result: list[int | BaseException] = []

    def run() -> None:
        try:
            result.append(_connect(pid, address, port, timeout))
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout + 5)
    if not result:
        raise TimeoutError(f"no connection to port {port} in {timeout} s")
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _connect(pid: int, address: str, port: int, timeout: float) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    except OSError as error:
        raise ConnectionRefusedError(f"the machine is off: {error.strerror}") from error
    try:
        if libc.setns(namespace, CLONE_NEWNET):
            raise ConnectionRefusedError(f"the machine's network is gone (errno {ctypes.get_errno()})")
    finally:
        os.close(namespace)
    channel = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        channel.settimeout(timeout)
        channel.connect((address, port))
        channel.settimeout(None)
        return channel.detach()
    except BaseException:
        channel.close()
        raise
