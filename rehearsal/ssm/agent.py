"""The agent's side of one port-forwarding session: handshake, sequence and acknowledgements, streams to the machine's port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable
from typing import Any

from rehearsal.ssm import messages, smux
from rehearsal.ssm.messages import Flag, Message, Payload
from rehearsal.ssm.smux import Command

AGENT_VERSION = "3.3.40.0"  # new enough for multiplexing without keepalives
_PIECE = 1024  # bytes of a stream message, as the plugin's own
_WINDOW = 256  # messages sent and not acknowledged before the machine's sockets wait
_CHUNK = 32_768


class Agent:
    """One session. `send` puts a message on the data channel, if there is one; all calls come from one event loop."""

    def __init__(self, parameters: dict[str, Any], connect: Callable[[int], socket.socket], send: Callable[[bytes], None]) -> None:
        self.over = False
        self.streams_ever = 0
        self.last_data_at = asyncio.get_running_loop().time()
        self._parameters, self._connect, self._send = parameters, connect, send
        self._next_in, self._next_out = 0, 0
        self._early: dict[int, Message] = {}
        self._unacked: dict[int, bytes] = {}
        self._room = asyncio.Event()
        self._reader = smux.Reader()
        self._queues: dict[int, asyncio.Queue[bytes | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def channel_opened(self) -> None:
        """A data channel is there: the handshake on the first, what was not acknowledged on a later one."""
        if self._next_out:
            for raw in list(self._unacked.values()):
                self._send(raw)
            return
        properties = {
            "portNumber": str(self._parameters["portNumber"][0]),
            "localPortNumber": str(self._parameters.get("localPortNumber", ["0"])[0]),
            "type": "LocalPortForwarding",
        }
        action = {"ActionType": "SessionType", "ActionParameters": {"SessionType": "Port", "Properties": properties}}
        self._say(
            Payload.HANDSHAKE_REQUEST, json.dumps({"AgentVersion": AGENT_VERSION, "RequestedClientActions": [action]}).encode()
        )

    def receive(self, raw: bytes) -> None:
        """One message of the plugin. Raises `BadMessage` or smux's `BadFrame`."""
        message = messages.decode(raw)
        if message.kind == messages.ACKNOWLEDGE:
            self._unacked.pop(json.loads(message.payload)["AcknowledgedMessageSequenceNumber"], None)
            if len(self._unacked) < _WINDOW:
                self._room.set()
        elif message.kind == messages.INPUT:
            self._send(messages.acknowledgement(message).encode())
            if message.sequence >= self._next_in:  # else sent again
                self._early[message.sequence] = message
            while (ready := self._early.pop(self._next_in, None)) is not None:
                self._next_in += 1
                self._take(ready)

    def end(self, why: str = "") -> None:
        """The session is over: the plugin is told, the machine's sockets are closed."""
        if not self.over:
            self.over = True
            self._send(messages.closed("", why).encode())
            for task in self._tasks:
                task.cancel()

    def _take(self, message: Message) -> None:
        if message.payload_type == Payload.HANDSHAKE_RESPONSE:
            said = json.loads(message.payload)
            if said.get("Errors"):
                return self.end(f"the plugin refused the session: {said['Errors']}")
            self._say(
                Payload.HANDSHAKE_COMPLETE, json.dumps({"HandshakeTimeToComplete": 1_000_000, "CustomerMessage": ""}).encode()
            )
        elif message.payload_type == Payload.FLAG:
            if struct.unpack(">I", message.payload)[0] == Flag.TERMINATE:
                self.end("terminated")
        elif message.payload_type == Payload.DATA:
            self.last_data_at = asyncio.get_running_loop().time()
            for command, stream, data in self._reader.feed(message.payload):
                self._frame(command, stream, data)
        return None

    def _frame(self, command: Command, stream: int, data: bytes) -> None:
        if command is Command.OPEN:
            self.streams_ever += 1
            self._queues[stream] = asyncio.Queue()
            task = asyncio.ensure_future(self._serve(stream, self._queues[stream]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif stream in self._queues and command is not Command.NOTHING:
            self._queues[stream].put_nowait(data if command is Command.DATA else None)

    async def _serve(self, stream: int, queue: asyncio.Queue[bytes | None]) -> None:
        """One client of the plugin. The plugin has no half-close: its close ends both directions."""
        try:
            reached = await asyncio.to_thread(self._connect, int(self._parameters["portNumber"][0]))
        except OSError:
            self._say(Payload.FLAG, struct.pack(">I", Flag.NO_CONNECTION))
            self._queues.pop(stream, None)
            return await self._data(smux.frame(Command.CLOSE, stream))
        reader, writer = await asyncio.open_connection(sock=reached)
        down = asyncio.ensure_future(self._down(stream, reader))
        try:
            while (data := await queue.get()) is not None:
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            self._queues.pop(stream, None)
            down.cancel()
            writer.close()
        return None

    async def _down(self, stream: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._data(smux.frame(Command.DATA, stream, data))
        await self._data(smux.frame(Command.CLOSE, stream))
        queue = self._queues.get(stream)
        if queue is not None:
            queue.put_nowait(None)

    async def _data(self, raw: bytes) -> None:
        """Bytes of the multiplexed stream; returns when there is room for more. Frames of streams never mix: no wait inside one."""
        self.last_data_at = asyncio.get_running_loop().time()
        for start in range(0, len(raw), _PIECE):
            self._say(Payload.DATA, raw[start : start + _PIECE])
        while len(self._unacked) >= _WINDOW:
            self._room.clear()
            await self._room.wait()

    def _say(self, payload_type: Payload, said: bytes | dict[str, Any]) -> None:
        payload = said if isinstance(said, bytes) else json.dumps(said).encode()
        raw = Message(messages.OUTPUT, payload, self._next_out, payload_type).encode()
        self._unacked[self._next_out] = raw
        self._next_out += 1
        self._send(raw)
