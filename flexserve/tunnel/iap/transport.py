"""One link to the relay: TCP, proxy, TLS, upgrade, and picows' frames on asyncio.

Why picows and not framing of our own: docs/decisions/tunnel-websocket.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Protocol, cast

import picows
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport
from picows.url import WSParsedURL

from flexserve.tunnel.iap import codes, frames, urls
from flexserve.tunnel.iap.auth import TokenSource
from flexserve.tunnel.iap.codes import After, TunnelFailure
from flexserve.tunnel.iap.proxy import Proxy
from flexserve.tunnel.iap.rooms import Rooms
from flexserve.tunnel.iap.session import Session
from flexserve.tunnel.limits import Limits
from infra.access import Iap

_READ_BUFFER = 64 * 1024
_WRITE_HIGH = 256 * 1024
_RESOLVED_S = 300.0  # the relay's addresses are looked up again after this long, and after a failure
_ONE_ADDRESS_S = 5.0
_DETAIL = 200  # characters of what the relay said that are kept

_BINARY = WSMsgType.BINARY
# Not in the logging tree: picows reports to nobody, endings say it all. The level counts: a logger without one makes picows
# log every read, at a third of the tunnel's CPU.
_quiet = logging.Logger("flexserve.tunnel.picows", logging.CRITICAL + 1)


class Owner(Protocol):
    """Who a link reports to. All calls come from the event loop."""

    def on_message(self, message: memoryview, last: bool) -> None:
        """A whole message, valid during the call only; `last` when no other is at hand. May raise `BadFrame`."""

    def on_writable(self) -> None:
        """The link takes messages again after `paused`."""

    def on_ended(self, link: Link, failure: TunnelFailure) -> None:
        """The link is over; called once."""


class Link(WSListener):
    """A WebSocket to the relay. `paused` while its write buffer is full."""

    def __init__(self, owner: Owner, open_links: set[Link]) -> None:
        self._owner: Owner | None = owner
        self._open_links = open_links
        self._ws: WSTransport | None = None
        self._failure: TunnelFailure | None = None
        self._reading = True
        self._is_closing: Callable[[], bool] = lambda: True
        self.paused = False

    @property
    def closing(self) -> bool:
        """Whether its owner has let go of it."""
        return self._owner is None

    def on_ws_connected(self, transport: WSTransport) -> None:
        """picows: the upgrade is done."""
        self._ws = transport
        self._is_closing = transport.underlying_transport.is_closing
        self._open_links.add(self)
        if self._owner is None:  # whoever opened it was cancelled meanwhile
            self.close()
            return
        transport.underlying_transport.set_write_buffer_limits(high=_WRITE_HIGH)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """picows: a frame, whose memory is lent for this call."""
        owner = self._owner
        if owner is None or self._failure is not None:
            return
        kind = frame.msg_type
        if kind == _BINARY and frame.fin and not (transport.is_close_frame_sent or frame.rsv1 or frame.rsv2 or frame.rsv3):
            try:
                owner.on_message(frame.get_payload_as_memoryview(), frame.last_in_buffer)
            except frames.BadFrame as error:
                self.fail(TunnelFailure(codes.PROTOCOL, str(error)))
            return
        # A close that we did not send is picows' answer to broken frames, which it found one frame ahead of this call.
        broken = transport_error(transport) if transport.is_close_frame_sent else ""
        if broken and (kind != WSMsgType.CLOSE or _answers(transport, frame)):
            self._failure = TunnelFailure(codes.PROTOCOL, broken)
        elif kind == WSMsgType.CLOSE:
            code = int(cast(int, frame.get_close_code()))  # an int for codes that picows has no name for
            said = bytes(frame.get_close_message() or b"")[:_DETAIL].decode("utf-8", "replace")
            self._failure = TunnelFailure(codes.of_close(code), said, code)
            transport.disconnect()
        elif kind == WSMsgType.PING:
            if not self.paused:  # a relay that pings without reading fills no memory
                transport.send_pong(frame.get_payload_as_bytes())
        elif kind != WSMsgType.PONG:
            self.fail(TunnelFailure(codes.PROTOCOL, "a text message, a fragment or a compressed message"))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """picows: the socket is closed."""
        self._open_links.discard(self)
        if transport.is_close_frame_sent:
            _settled.add(task := asyncio.ensure_future(_settle(transport)))
            task.add_done_callback(_settled.discard)
        owner, self._owner = self._owner, None
        if owner is None:
            return
        if self._failure is None:
            broken = transport_error(transport)
            self._failure = TunnelFailure(codes.PROTOCOL if broken else codes.UNKNOWN, broken)
        owner.on_ended(self, self._failure)

    def pause_writing(self) -> None:
        """asyncio: the write buffer is full."""
        self.paused = True

    def resume_writing(self) -> None:
        """asyncio: the write buffer has drained."""
        self.paused = False
        if self._owner is not None:
            self._owner.on_writable()

    def send(self, message: bytes) -> None:
        """Send one message; masked and copied, so that `message` stays ours. Nothing happens on a link that is over."""
        if self._ws is not None and not self._is_closing():
            self._ws.send(_BINARY, message)

    def read(self, wanted: bool) -> None:
        """Take messages, or leave them with the relay."""
        if wanted != self._reading and self._ws is not None:
            self._reading = wanted
            transport = self._ws.underlying_transport
            transport.resume_reading() if wanted else transport.pause_reading()

    def fail(self, failure: TunnelFailure) -> None:
        """Break the link for a reason of ours; the owner hears of it."""
        self._failure = self._failure or failure
        if self._ws is not None:
            self._ws.disconnect(graceful=False)

    def close(self) -> None:
        """End the session: 1000, flushed. The owner hears nothing more."""
        self._owner = None
        if self._ws is not None:
            self.read(True)  # a paused link would not see the relay's answer to the close
            self._ws.send_close(WSCloseCode.OK)
            self._ws.disconnect()

    def drop(self) -> None:
        """Close the socket at once. The owner hears nothing more."""
        self._owner = None
        if self._ws is not None:
            self._ws.disconnect(graceful=False)


def _answers(transport: WSTransport, frame: WSFrame) -> bool:
    """Whether a close frame only echoes the close that picows sent."""
    sent = transport.close_handshake.sent
    return sent is not None and frame.get_close_code() == sent.code


_settled: set[asyncio.Future[None]] = set()


async def _settle(transport: WSTransport) -> None:
    """Take the error that picows keeps for whoever waits for the end: nobody does, and asyncio would complain."""
    with contextlib.suppress(Exception):
        await transport.wait_disconnected()


def transport_error(transport: WSTransport) -> str:
    """What picows itself found wrong with the relay's frames; empty when the socket just ended."""
    # picows fails `wait_disconnected` with that error, but only after this callback: the close it sent tells it now.
    handshake = transport.close_handshake
    if handshake is None or handshake.sent is None or handshake.sent.code == WSCloseCode.OK:
        return ""
    return f"frames that no WebSocket has ({handshake.sent.reason or handshake.sent.code})"


class Dialer:
    """Opens links of one access: the relay is resolved once, the TLS context is made once."""

    def __init__(
        self,
        access: Iap,
        *,
        root: str,
        token: TokenSource,
        context: ssl.SSLContext,
        proxy: Proxy | None,
        limits: Limits,
        named: str = "",
    ) -> None:
        self.access = access
        self.limits = limits
        self._root = root
        self._token = token
        self._context = context
        self._proxy = proxy
        self._first = (codes.PROXY_UNREACHABLE, str(proxy)) if proxy else (codes.UNREACHABLE, named or root)
        """Whom we connect to: how it is told that this fails, and its name."""
        self.rooms = Rooms()
        self._connect_url = urls.connect_url(root, access)
        self._links: set[Link] = set()
        self._abandoned: set[asyncio.Task[Link]] = set()
        self._addresses: list[tuple[int, tuple[object, ...]]] = []
        self._resolved_at = 0.0

    async def open(self, session: Session, owner: Owner, *, fresh_token: bool = False) -> Link:
        """Open a link for `session`, new or resumed; the confirmation is still to come. Raises `TunnelFailure`.

        A token that the relay refuses is refreshed once. `NoAccess` when there is no token at all.
        """
        try:
            return await self._open(session, owner, fresh_token)
        except TunnelFailure as failure:
            if failure.ending.code != 401 or fresh_token:
                raise
        return await self._open(session, owner, True)

    async def closed(self) -> None:
        """Close every link in order; return when all are, or were dropped because they took longer than `close_s`."""
        for link in list(self._links):
            if not link.closing:
                link.close()
        deadline = time.monotonic() + self.limits.close_s
        while (self._links or self._abandoned) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        for link in list(self._links):
            link.drop()
        for task in list(self._abandoned):
            task.cancel()

    async def _open(self, session: Session, owner: Owner, fresh_token: bool) -> Link:
        token = await self._token(fresh_token)
        sid = session.reopen()
        url = urls.reconnect_url(self._root, self.access, sid, session.received) if sid else self._connect_url
        link = Link(owner, self._links)
        try:
            async with asyncio.timeout(self.limits.link_s):
                return await self._whole(link, url, token)
        except TimeoutError:
            self._addresses = []
            raise TunnelFailure(codes.UNKNOWN, f"no link within {self.limits.link_s:g} s") from None
        except picows.WSError as error:
            raise _refused(error) from error
        except ssl.SSLCertVerificationError as error:
            raise TunnelFailure(codes.UNTRUSTED, error.verify_message) from error
        except OSError as error:
            self._addresses = []
            raise TunnelFailure(codes.UNKNOWN, error.strerror or str(error)) from error

    async def _whole(self, link: Link, url: str, token: str) -> Link:
        """`_upgrade`, which goes on to its end when this call is cancelled, and is then closed in order.

        A socket that just ends after the relay saw the request leaves a session there, kept for a resume that never comes.
        """
        task = asyncio.ensure_future(self._upgrade(link, url, token))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            link.close()  # before the upgrade: it closes itself when that is done
            if not task.done():
                self._abandoned.add(task)
                late = asyncio.get_running_loop().call_later(self.limits.close_s, task.cancel)
                task.add_done_callback(lambda done: self._settled(done, late))
            raise

    def _settled(self, task: asyncio.Task[Link], late: asyncio.TimerHandle) -> None:
        late.cancel()
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # taken: nobody waits for it

    async def _upgrade(self, link: Link, url: str, token: str) -> Link:
        headers = {"Origin": urls.ORIGIN, "Sec-WebSocket-Protocol": urls.SUBPROTOCOL, "User-Agent": "flexserve"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            transport, listener = await picows.ws_connect(
                lambda: link,
                url,
                ssl_context=self._context,
                websocket_handshake_timeout=self.limits.link_s,
                logger_name=_quiet,
                enable_auto_pong=False,
                max_frame_size=frames.MAX_MESSAGE,
                extra_headers=headers,
                max_redirects=0,
                proxy=self._proxy.url if self._proxy else None,
                read_buffer_init_size=_READ_BUFFER,
                socket_factory=self._connected_socket,
                ssl_shutdown_timeout=self.limits.close_s,
            )
        except Exception as error:
            if type(error).__name__ == "ProxyError":  # python_socks is picows' own dependency
                raise _proxy_refused(str(error), str(self._proxy)) from error
            raise
        if listener is None:
            raise TunnelFailure(codes.UNKNOWN, "the relay ended the connection during the upgrade")
        if transport.response.headers.get("Sec-WebSocket-Protocol") != urls.SUBPROTOCOL:
            link.drop()
            raise TunnelFailure(codes.REFUSED_STATUS, "but it does not speak the tunnel's protocol", 101)
        return link

    async def _connected_socket(self, target: WSParsedURL) -> socket.socket:
        """A connected TCP socket to the relay or its proxy, from the addresses that worked last."""
        ending, name = self._first
        try:
            return await self._connected(target)
        except OSError as error:
            self._addresses = []
            raise TunnelFailure(ending, f"{name}: {_said(error)}") from error

    async def _connected(self, target: WSParsedURL) -> socket.socket:
        now = time.monotonic()
        if not self._addresses or now - self._resolved_at > _RESOLVED_S:
            found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            self._addresses = [(family, address) for family, _, _, _, address in found]
            self._resolved_at = now
        failure: OSError = OSError("the name has no address")
        for family, address in list(self._addresses):
            try:
                connected = await _connect(family, address)
            except OSError as error:  # TimeoutError is one
                failure = error
                continue
            self._addresses.sort(key=lambda one: one[1] != address)
            return connected
        raise failure


async def _connect(family: int, address: tuple[object, ...]) -> socket.socket:
    link = socket.socket(family, socket.SOCK_STREAM)
    try:
        link.setblocking(False)
        tune(link)
        async with asyncio.timeout(_ONE_ADDRESS_S):
            await asyncio.get_running_loop().sock_connect(link, address)
    except BaseException:
        link.close()
        raise
    return link


def tune(link: socket.socket) -> None:
    """No delay, and a dead network noticed within a minute or two: the protocol has no keepalive above TCP."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))
    for option, value in (
        (idle, 30),
        (getattr(socket, "TCP_KEEPINTVL", None), 10),
        (getattr(socket, "TCP_KEEPCNT", None), 3),
    ):
        if option is not None:
            link.setsockopt(socket.IPPROTO_TCP, option, value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Two minutes: it also counts while the other end lives and does not read; a slow reader is no broken link.
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 120_000)


def _said(error: OSError) -> str:
    """The system's own words: asyncio has others for a refused connection, and none for one that timed out."""
    if isinstance(error, TimeoutError):
        return f"no answer within {_ONE_ADDRESS_S:g} s"
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _refused(error: picows.WSError) -> TunnelFailure:
    response = getattr(error, "response", None)
    if isinstance(error, picows.WSInvalidStatusError) and response is not None:
        body = bytes(getattr(error, "raw_body", b"") or b"")[:_DETAIL].decode("utf-8", "replace").strip()
        status = int(response.status)
        return TunnelFailure(codes.of_status(status), body or f"HTTP {status}", status)
    return TunnelFailure(codes.PROTOCOL, str(error)[:_DETAIL])


def _proxy_refused(said: str, proxy: str) -> TunnelFailure:
    ending = codes.of_status(407) if "407" in said else codes.PROXY
    return TunnelFailure(ending, f"{proxy}: {said}", ending.code)


__all__ = ["After", "Dialer", "Link", "Owner", "tune"]
