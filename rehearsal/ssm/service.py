"""The service: StartSession, ResumeSession and TerminateSession over HTTP, and the data channel's WebSocket."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import picows
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest

from rehearsal.ssm.agent import Agent
from rehearsal.ssm.messages import BadMessage
from rehearsal.ssm.smux import BadFrame

Connect = Callable[[str, int], socket.socket]
_SIGNED = "AWS4-HMAC-SHA256 "
_LOOK_S = 0.05
_quiet = logging.Logger("rehearsal.ssm.picows", logging.CRITICAL + 1)


class Refusal(Exception):
    """An error of the service's, by its name."""


@dataclass
class Session:
    """One session, from StartSession to its end."""

    ident: str
    target: str
    parameters: dict[str, Any]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    agent: Agent | None = None
    channel: Channel | None = None
    channels: int = 0  # data channels ever
    over: bool = False

    def send(self, raw: bytes) -> None:
        """To the plugin, when it is there."""
        if self.channel is not None:
            self.channel.send(raw)


class Channel(WSListener):
    """One data channel: a text message with the token opens it, binary messages follow."""

    def __init__(self, service: Service, ident: str) -> None:
        self._service, self._ident = service, ident
        self._ws: WSTransport | None = None
        self._session: Session | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        """picows: the upgrade is done."""
        self._ws = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """picows: a frame."""
        if frame.msg_type == WSMsgType.TEXT and self._session is None:
            self._session = self._service.opened(self, self._ident, json.loads(frame.get_payload_as_bytes()))
            if self._session is None:
                transport.disconnect()
        elif frame.msg_type == WSMsgType.BINARY and self._session is not None and self._session.agent is not None:
            try:
                self._session.agent.receive(frame.get_payload_as_bytes())
            except (BadMessage, BadFrame):
                transport.disconnect()
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """picows: the socket is closed. The session stays for a resume."""
        if self._session is not None and self._session.channel is self:
            self._session.channel = None

    def send(self, raw: bytes) -> None:
        """One message."""
        if self._ws is not None and not self._ws.is_disconnected:
            self._ws.send(WSMsgType.BINARY, raw)

    def cut(self) -> None:
        """The network fails."""
        if self._ws is not None:
            self._ws.underlying_transport.abort()


class Service:
    """On two free loopback ports while the block lasts. `connect(target, port)` gives a socket to the machine's port, or `OSError`.

    A session without data for `idle_s` is ended, as the service does after 20 minutes. `refused(target)` names an error of
    StartSession (`TargetNotConnected`, `AccessDeniedException`), or nothing.
    """

    def __init__(self, connect: Connect, *, idle_s: float = 1200.0, refused: Callable[[str], str] = lambda _: "") -> None:
        self.sessions: dict[str, Session] = {}
        self.idle_s = idle_s
        self._connect, self._refused = connect, refused
        self._count = 0

    @property
    def url(self) -> str:
        """The endpoint of the `ssm` service."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def live(self) -> list[Session]:
        """Sessions that are not over."""
        return [session for session in self.sessions.values() if not session.over]

    def cut(self) -> None:
        """Break every data channel, as a network that changes does."""
        for session in self.live:
            if session.channel is not None:
                self._loop.call_soon_threadsafe(session.channel.cut)

    def __enter__(self) -> Service:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._channels(started)), name="ssm", daemon=True)
        self._thread.start()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._http.serve_forever, name="ssm-api", daemon=True).start()
        started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    # the API, in a thread each

    def call(self, operation: str, body: dict[str, Any], signed: bool) -> dict[str, Any]:
        """One call of the API. Raises `Refusal`."""
        if not signed:
            raise Refusal("MissingAuthenticationToken")
        _check(operation, body)
        if operation == "StartSession":
            return self._start(body)
        session = self.sessions.get(body["SessionId"])
        if session is None:
            raise Refusal("DoesNotExistException")
        if operation == "TerminateSession":
            session.over = True
            self._loop.call_soon_threadsafe(self._end, session, "")
            return {"SessionId": session.ident}
        if session.over:
            return {"SessionId": session.ident}  # without a token: it timed out
        session.token = secrets.token_urlsafe(32)
        return self._answer(session)

    def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        refused = self._refused(body["Target"])
        if refused:
            raise Refusal(refused)
        if body.get("DocumentName") != "AWS-StartPortForwardingSession":
            raise Refusal("InvalidDocument")
        self._count += 1
        session = Session(f"operator-{self._count:017x}", body["Target"], body["Parameters"])
        self.sessions[session.ident] = session
        return self._answer(session)

    def _answer(self, session: Session) -> dict[str, Any]:
        stream = f"ws://127.0.0.1:{self._port}/v1/data-channel/{session.ident}?role=publish_subscribe"
        return {"SessionId": session.ident, "TokenValue": session.token, "StreamUrl": stream}

    # the data channels, in the loop's thread

    async def _channels(self, started: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await picows.ws_create_server(self._upgrade, "127.0.0.1", 0, logger_name=_quiet, max_frame_size=1 << 20)
        self._port = server.sockets[0].getsockname()[1]
        started.set()
        while not self._stopping.is_set():
            now = self._loop.time()
            for session in self.live:
                if session.agent is not None and now - session.agent.last_data_at > self.idle_s:
                    self._end(session, "Session timed out due to inactivity.")
            try:
                await asyncio.wait_for(self._stopping.wait(), _LOOK_S)
            except TimeoutError:
                continue
        server.close()
        for session in self.live:
            self._end(session, "")
        await asyncio.sleep(0.02)

    def _upgrade(self, request: WSUpgradeRequest) -> Channel | None:
        if not request.headers.get("Authorization", "").startswith(_SIGNED):
            return None
        return Channel(self, request.path.decode("ascii", "replace").partition("?")[0].rpartition("/")[2])

    def opened(self, channel: Channel, ident: str, said: dict[str, Any]) -> Session | None:
        """The plugin's first message: its session, or None for a wrong token."""
        session = self.sessions.get(ident)
        if session is None or session.over or not secrets.compare_digest(str(said.get("TokenValue", "")), session.token):
            return None
        session.channel = channel
        session.channels += 1
        if session.agent is None:
            target = session.target
            session.agent = Agent(session.parameters, lambda port: self._connect(target, port), session.send)
        session.agent.channel_opened()
        return session

    def _end(self, session: Session, why: str) -> None:
        session.over = True
        if session.agent is not None:
            session.agent.end(why)


def _check(operation: str, body: dict[str, Any]) -> None:
    """Against AWS's own service model, which botocore carries. Raises `Refusal`."""
    import botocore.session  # type: ignore[import-untyped]
    from botocore.validate import ParamValidator  # type: ignore[import-untyped]

    model = botocore.session.get_session().get_service_model("ssm")
    if operation not in ("StartSession", "ResumeSession", "TerminateSession"):
        raise Refusal("UnknownOperationException")
    report = ParamValidator().validate(body, model.operation_model(operation).input_shape)
    if report.has_errors():
        raise Refusal("ValidationException")


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            operation = self.headers.get("X-Amz-Target", "").removeprefix("AmazonSSM.")
            try:
                status, answer = 200, service.call(operation, body, self.headers.get("Authorization", "").startswith(_SIGNED))
            except Refusal as refusal:
                status, answer = 400, {"__type": str(refusal), "message": f"{refusal} was said"}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
