"""The metadata server's DNS: names of stand-ins to their addresses; every other name does not exist."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

METADATA = "169.254.169.254"
GOOGLE_APIS = "199.36.153.8"
OUTSIDE = "203.0.113.1"
NAME_ERROR = 3


def resolve(name: str, hosts: Mapping[str, str]) -> str | None:
    """The address of `name` by exact name, else by a `*.suffix` entry; None when there is no such name."""
    name = name.rstrip(".").lower()
    if name in hosts:
        return hosts[name]
    labels = name.split(".")
    return next((hosts[key] for i in range(1, len(labels)) if (key := "*." + ".".join(labels[i:])) in hosts), None)


def reply(packet: bytes, hosts: Mapping[str, str]) -> bytes:
    """The answer to one query: an A record, none (another type of a name that exists), or NXDOMAIN."""
    identifier, flags = struct.unpack("!HH", packet[:4])
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode("ascii", "replace"))
        at += 1 + packet[at]
    question = packet[12 : at + 5]
    kind = struct.unpack("!H", packet[at + 1 : at + 3])[0]
    address = resolve(".".join(labels), hosts)
    answer = b""
    if address and kind == 1:
        answer = struct.pack("!HHHIH", 0xC00C, 1, 1, 30, 4) + socket.inet_aton(address)
    code = 0 if address else NAME_ERROR
    header = struct.pack("!HHHHHH", identifier, 0x8180 | (flags & 0x0100) | code, 1, 1 if answer else 0, 0, 0)
    return header + question + answer


def listen(address: str = METADATA, port: int = 53) -> socket.socket:
    """A bound UDP socket."""
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.bind((address, port))
    return channel


def serve(channel: socket.socket, hosts: Mapping[str, str]) -> None:
    """Answer for ever; a packet that is no query is dropped."""
    while True:
        packet, sender = channel.recvfrom(4096)
        try:
            channel.sendto(reply(packet, hosts), sender)
        except (IndexError, struct.error, OSError):
            continue
