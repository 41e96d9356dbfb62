"""Runs a provider: inside this process on a free port, or as a program that prints its port."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from rehearsal.providers.servicer import Servicer

_WORKERS = 16  # calls that may wait at the same time; the engine runs as many steps side by side by default
_SIZE = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]


@contextmanager
def serving(servicer: Servicer[Any]) -> Iterator[int]:
    """Serve on a free loopback port, and stop on the way out. Yields the port."""
    server = grpc.server(ThreadPoolExecutor(_WORKERS), options=_SIZE)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=0.5).wait()


def run_as_plugin(servicer: Servicer[Any]) -> None:
    """Serve as the engine expects of a plugin: the port alone on standard output, until told to end."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with serving(servicer) as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        ended.wait()
