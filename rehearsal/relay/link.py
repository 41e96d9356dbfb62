"""One WebSocket of a client, as the relay sees it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from rehearsal.relay.faults import Faults

if TYPE_CHECKING:
    from rehearsal.relay.session import Session

TAG_DATA = 4
CLOSE_S = 2.0  # a client that does not answer a close frame
_RESET = struct.pack("ii", 1, 0)


class Link(WSListener):
    """One WebSocket of a client."""

    def __init__(self, opened: Callable[[Link], None], faults: Faults) -> None:
        self._opened, self._faults = opened, faults
        self.ws: WSTransport | None = None
        self.session: Session | None = None
        self.full = False
        self.closed = False  # by the client

    def on_ws_connected(self, transport: WSTransport) -> None:
        """picows: the upgrade is done."""
        self.ws = transport
        transport.underlying_transport.set_write_buffer_limits(high=256 * 1024)
        self._opened(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """picows: a frame, whose memory is lent for this call."""
        if frame.msg_type == WSMsgType.CLOSE:
            self.closed = True
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            if self.session is not None:
                self.session.client_closed()
        elif frame.msg_type == WSMsgType.BINARY and self.session is not None:
            self.session.from_client(self, frame.get_payload_as_memoryview())
        if frame.last_in_buffer and self.session is not None:
            self.session.read_over()

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """picows: the socket is closed."""
        if self.session is not None:
            self.session.link_lost(self)

    def pause_writing(self) -> None:
        """Too much waits to be written."""
        self.full = True

    def resume_writing(self) -> None:
        """What waited was written."""
        self.full = False
        if self.session is not None:
            self.session.pump()

    def send(self, message: bytes) -> None:
        """One message, as the instance's faults would have it."""
        ws = cast(WSTransport, self.ws)
        if self._faults.ping:
            ws.send_ping(b"relay")
        if self._faults.fragments:
            half = len(message) // 2
            ws.send(WSMsgType.BINARY, message[:half], fin=False)
            ws.send(WSMsgType.CONTINUATION, message[half:])
        else:
            ws.send(WSMsgType.BINARY, message)

    def send_data(self, chunks: list[memoryview]) -> None:
        """DATA messages that leave together: whole TLS records and one write, where no fault wants them apart."""
        faults = self._faults
        if faults.ping or faults.fragments or faults.trailing or faults.unknown_tags:
            for chunk in chunks:
                if faults.unknown_tags:
                    self.send(struct.pack(">H", 10) + b"long close")
                extra = b"trailing bytes" if faults.trailing else b""
                self.send(b"".join((struct.pack(">HI", TAG_DATA, len(chunk)), chunk, extra)))
            return
        parts: list[bytes | memoryview] = []
        for chunk in chunks:
            parts += _data_head(len(chunk)), chunk
        self.raw(b"".join(parts))

    def close(self, code: int, reason: str = "") -> None:
        """A close frame; the socket is closed when the client has answered, or after a while.

        At once would be a reset where acknowledgements are still unread, and that takes away what the client has not read.
        """
        ws = cast(WSTransport, self.ws)
        ws.send_close(cast(WSCloseCode, code), reason.encode())
        self.read(True)
        asyncio.get_running_loop().call_later(CLOSE_S, ws.disconnect)

    def reset(self) -> None:
        """RST: nothing more is delivered."""
        transport = cast(WSTransport, self.ws).underlying_transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()

    def end(self) -> None:
        """End of stream without a close frame."""
        cast(WSTransport, self.ws).underlying_transport.close()

    def read(self, wanted: bool) -> None:
        """Take messages, or leave them with the client."""
        transport = cast(WSTransport, self.ws).underlying_transport
        transport.resume_reading() if wanted else transport.pause_reading()

    def raw(self, data: bytes) -> None:
        """Bytes below the WebSocket layer."""
        cast(WSTransport, self.ws).underlying_transport.write(data)


def _data_head(size: int) -> bytes:
    """What comes before `size` bytes of data: the head of a whole binary message, unmasked, then tag and length."""
    whole = size + 6
    if whole < 126:
        return struct.pack(">BBHI", 0x82, whole, TAG_DATA, size)
    if whole < 65_536:
        return struct.pack(">BBHHI", 0x82, 126, whole, TAG_DATA, size)
    return struct.pack(">BBQHI", 0x82, 127, whole, TAG_DATA, size)
