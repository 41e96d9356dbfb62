"""One relayed TCP connection as the protocol sees it, without any I/O: counters, acks, what must be sent again.

Counters are absolute for a session and a direction, survive reconnects and count DATA payload only. Nothing marks a
duplicate: both ends trust the counters, so a counter that cannot be true ends the connection.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from flexserve.tunnel.iap import frames
from flexserve.tunnel.iap.frames import BadFrame, Tag

ACK_EVERY = 2 * frames.MAX_DATA  # bytes received that are acknowledged at once
_HEADER = frames.DATA_HEADER_SIZE  # bytes before the payload of a DATA message
_DATA = int(Tag.DATA)


class State(Enum):
    """Where the session stands."""

    WAITS_SID = auto()  # a link is opening a new session
    WAITS_RESUME = auto()  # a link is resuming it
    READY = auto()
    BROKEN = auto()  # no link


_READY = State.READY  # looked up once: an enumeration's members are slow to reach


class Session:
    """Counters and the queue of what the relay has not acknowledged.

    `unsent` and `unacked` are bytes of payload. The owner bounds them by not offering more data while they are high.
    """

    def __init__(self) -> None:
        self.state = State.WAITS_SID
        self.sid = ""
        self.received = 0  # bytes from the relay, ever
        self.offered = 0  # bytes the local side gave us, ever
        self.acked = 0  # bytes of ours that the relay has, as it says
        self.unsent_bytes = 0
        self._told = 0  # the last counter we acknowledged
        self._base = 0  # offset of the first byte in `_sent`, or of the first unsent one
        self._sent: deque[bytes] = deque()
        self._unsent: deque[bytes] = deque()

    @property
    def unacked(self) -> int:
        """Bytes kept for a resend, sent or not."""
        return self.offered - self.acked

    @property
    def in_flight(self) -> int:
        """Bytes sent on this link and not acknowledged."""
        return self.offered - self.unsent_bytes - self.acked

    @property
    def ack_due(self) -> bool:
        """Enough was received to acknowledge it now rather than after the next lull."""
        return self.received - self._told >= ACK_EVERY

    def offer(self, chunk: bytes | memoryview) -> None:
        """Queue what the local side sent, copied and cut into messages."""
        size = len(chunk)
        self.offered += size
        self.unsent_bytes += size
        self._unsent.extend(frames.cut(memoryview(chunk)))

    def next_message(self) -> bytes | None:
        """The next DATA message to send, kept until it is acknowledged. None when there is none or no link is ready."""
        if not self._unsent or self.state is not _READY:
            return None
        message = self._unsent.popleft()
        self._sent.append(message)
        self.unsent_bytes -= len(message) - _HEADER
        return message

    def ack(self) -> bytes | None:
        """An ACK message for what was received since the last one. None when there is nothing new or no link."""
        if self.received == self._told or self.state is not State.READY:
            return None
        self._told = self.received
        return frames.ack(self.received)

    def receive(self, message: memoryview) -> memoryview | None:
        """Take one message of the relay; the payload when it was DATA.

        The payload is a view of the caller's buffer. Raises `BadFrame` for anything the protocol does not allow.
        """
        size = len(message) - _HEADER
        if size >= 0:
            tag, length = frames.data_header(message)
            if tag == _DATA:  # this function runs 60,000 times a GB
                if length > size:
                    raise BadFrame(f"a message that declares {length} bytes and holds {size}")
                if self.state is not _READY:
                    raise BadFrame("data before the session was confirmed")
                self.received += length
                return message[_HEADER : _HEADER + length]  # bytes after the declared length are legal, and dropped
        control = frames.parse(message)
        if control.tag == Tag.ACK:
            if self.state is not State.READY:
                raise BadFrame("an acknowledgement before the session was confirmed")
            self._take_ack(control.number, self.offered - self.unsent_bytes)
        elif control.tag == Tag.CONNECTED:
            self._confirm(State.WAITS_SID, control.tag)
            self.sid = control.sid
        elif control.tag == Tag.RESUMED:
            self._confirm(State.WAITS_RESUME, control.tag)
            self._rewind(control.number)
        return None

    def broke(self) -> None:
        """The link is gone. With an id the session can be resumed; without one it starts again."""
        self.state = State.BROKEN

    def reopen(self) -> str:
        """A new link is being opened: the session id to resume, or an empty string for a new session."""
        self.state = State.WAITS_RESUME if self.sid else State.WAITS_SID
        return self.sid

    def _confirm(self, expected: State, tag: int) -> None:
        if self.state is not expected:
            raise BadFrame(f"an unexpected confirmation (tag {tag})")
        self.state = State.READY

    def _take_ack(self, number: int, limit: int) -> None:
        if not self.acked <= number <= limit:
            raise BadFrame(f"an acknowledgement of {number} bytes where {self.acked} to {limit} are possible")
        self.acked = number
        while self._sent and self._base + len(self._sent[0]) - _HEADER <= number:
            self._base += len(self._sent.popleft()) - _HEADER

    def _rewind(self, number: int) -> None:
        """The relay has `number` bytes of ours: drop those, send the rest again, in order, before anything new."""
        self._take_ack(number, self.offered - self.unsent_bytes)
        self._told = self.received  # the reconnect told the relay what we have
        again = list(self._sent)
        self._sent.clear()
        if again and self._base < number:
            again[0] = frames.data(memoryview(again[0])[_HEADER + number - self._base :])
            self._base = number
        self.unsent_bytes += sum(len(message) - _HEADER for message in again)
        self._unsent.extendleft(reversed(again))
