"""The relay itself: TLS, the upgrade, who may connect, and a table of sessions, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import picows
from picows import WSUpgradeRequest, WSUpgradeResponse
from picows.common import WSUpgradeResponseWithListener

from rehearsal.relay import tls
from rehearsal.relay.faults import Faults, by_name
from rehearsal.relay.link import Link
from rehearsal.relay.session import Session

UNTRUSTED = "relay: a client broke off the TLS handshake; one that does not trust this relay needs SSL_CERT_FILE set to its ca.pem"
HANDSHAKE = "SSL handshake failed"  # aiofastnet's words; beside them is sometimes the class of an error only
SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
Connect = Callable[[str, str, int], "socket.socket | int"]
Allowed = Callable[[str, str, str, str, int], "int | None"]

_quiet = logging.Logger("rehearsal.relay.picows")
_quiet.setLevel(logging.CRITICAL + 1)  # picows makes a child of it for each link; gcloud's second CLOSE is no news


@dataclass(frozen=True)
class Request:
    """One WebSocket that a client asked for. `token`: a digest, to tell one token from another."""

    kind: str  # connect or reconnect
    instance: str
    token: str


class Relay:
    """A relay on a free loopback port while the block lasts.

    `connect(instance, zone, port)` gives a connected socket (or its descriptor) to the machine's port; it runs in a
    thread. It raises `ConnectionRefusedError` (or another `OSError`) where nothing listens, `LookupError` where there
    is no such instance. `allowed(token, project, zone, instance, port)` gives None, a close code (4033) or an HTTP
    status (403). `faults(instance)` says what goes wrong.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        allowed: Allowed = lambda *_: None,
        faults: Callable[[str], Faults] = by_name,
        port: int = 0,
        keep_s: float = 60.0,
        folder: Path | None = None,
        log_messages: bool = False,
    ) -> None:
        self.requests: list[Request] = []
        self.messages: list[tuple[float, bytes]] | None = [] if log_messages else None
        self.port = port
        self._connect, self._allowed, self._faults, self._keep_s = connect, allowed, faults, keep_s
        self._given_folder = folder
        self._sessions: dict[str, Session] = {}
        self._names: dict[str, str] = {}  # session id -> instance
        self._resumes = 0  # of sessions that are over
        self._threads = ThreadPoolExecutor(32, thread_name_prefix="relay-connect")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = False

    @property
    def url(self) -> str:
        """For `FLEXSERVE_IAP_URL` and gcloud's `--iap-tunnel-url-override`."""
        return f"wss://localhost:{self.port}/v4"

    @property
    def sessions(self) -> int:
        """Sessions that live now, broken ones included."""
        return len(self._sessions)

    @property
    def resumes(self) -> int:
        """Links that resumed a session, ever."""
        return self._resumes + sum(session.resumes for session in list(self._sessions.values()))

    def start(self) -> Relay:
        """Listen; returns when it does. `url`, `port` and `ca_file` are set then."""
        self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix="flexserve-relay-"))
        self.ca_file, context = tls.make(self._folder)
        started = threading.Event()
        failure: list[BaseException] = []

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._loop.set_exception_handler(self._trouble)
            self._stopping = asyncio.Event()
            try:
                server = await picows.ws_create_server(
                    self._upgrade, "127.0.0.1", self.port, ssl=context, logger_name=_quiet, max_frame_size=1 << 20,
                    websocket_handshake_timeout=20, read_buffer_init_size=64 * 1024, ssl_shutdown_timeout=1,
                )  # fmt: skip
            except OSError as error:
                failure.append(error)
                started.set()
                return
            self.port = server.sockets[0].getsockname()[1]
            started.set()
            await self._stopping.wait()
            server.close()
            for session in list(self._sessions.values()):
                session.close()
            await asyncio.sleep(0.02)  # resets and closes reach the sockets

        self._thread = threading.Thread(target=lambda: asyncio.run(main()), name="relay", daemon=True)
        self._thread.start()
        started.wait()
        if failure:
            raise failure[0]
        return self

    def stop(self) -> None:
        """Break every session and stop listening. Safe to call twice."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._given_folder is None and hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Relay:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # in the loop's thread

    def _trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A client that breaks the handshake off is its own business: one line, once. asyncio would print a page each time."""
        if context.get("message") != HANDSHAKE:
            return loop.default_exception_handler(context)
        if not self._told:
            self._told = True
            print(UNTRUSTED, file=sys.stderr, flush=True)
        return None

    def _upgrade(self, request: WSUpgradeRequest) -> Link | WSUpgradeResponseWithListener:
        url = urlsplit(request.path.decode("ascii", "replace"))
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        kind = url.path.rpartition("/")[2]
        if request.headers.get("Sec-WebSocket-Protocol") != SUBPROTOCOL or kind not in ("connect", "reconnect"):
            return _refuse(400, "not a tunnel request")
        session = self._sessions.get(query.get("sid", "")) if kind == "reconnect" else None
        instance = query.get("instance", "") if session is None else self._names.get(session.sid, "")
        self.requests.append(Request(kind, instance, hashlib.sha256(token.encode()).hexdigest()[:12]))
        faults = self._faults(instance)
        refused = faults.http_status or self._who(query, instance, token)
        if 400 <= refused < 600:
            return _refuse(refused, "refused")
        if refused:
            link = Link(lambda link: link.close(refused, "not authorized"), faults)
        elif kind == "connect":
            link = Link(functools.partial(self._new, query=query, faults=faults), faults)
        elif session is None:
            link = Link(lambda link: link.close(4001, "unknown session"), faults)
        else:
            ack = int(query.get("ack", "0"))
            link = Link(lambda link: session.resume(link, ack), faults)
        return WSUpgradeResponseWithListener(
            WSUpgradeResponse.create_101_response(extra_headers={"Sec-WebSocket-Protocol": SUBPROTOCOL}), link
        )

    def _who(self, query: dict[str, str], instance: str, token: str) -> int:
        port = query.get("port", "0")
        return self._allowed(
            token, query.get("project", ""), query.get("zone", ""), instance, int(port) if port.isdigit() else 0
        ) or 0  # fmt: skip

    def _new(self, link: Link, *, query: dict[str, str], faults: Faults) -> None:
        if faults.silent:
            return
        if faults.connect_code:
            link.close(faults.connect_code, "fault")
            return
        task = asyncio.get_running_loop().create_task(self._reach(link, query, faults))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reach(self, link: Link, query: dict[str, str], faults: Faults) -> None:
        loop = asyncio.get_running_loop()
        try:
            port, instance = int(query["port"]), query["instance"]
            reached = await loop.run_in_executor(self._threads, self._connect, instance, query["zone"], port)
        except LookupError:
            return link.close(4047, "failed to look up the instance")
        except (OSError, ValueError):
            return link.close(4003, "failed to connect to backend")
        machine = reached if isinstance(reached, socket.socket) else socket.socket(fileno=reached)
        machine.setblocking(False)
        machine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session = Session(faults, self._ended, self._keep_s, self.messages)
        await loop.create_connection(lambda: session, sock=machine)
        self._sessions[session.sid] = session
        self._names[session.sid] = instance
        if link.ws is None or link.closed or link.ws.is_disconnected:
            session.close()
            return None
        return session.confirm(link)

    def _ended(self, session: Session) -> None:
        if self._sessions.pop(session.sid, None) is not None:
            self._resumes += session.resumes
        self._names.pop(session.sid, None)


def _refuse(status: int, body: str) -> WSUpgradeResponseWithListener:
    return WSUpgradeResponseWithListener(WSUpgradeResponse.create_error_response(status, body.encode()), None)
