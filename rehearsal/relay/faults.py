"""What a relay can do wrong, by the instance's name: `vm-dropdn5000000` resets the link after 5,000,000 bytes down.

Words are separated by hyphens, so that any client passes them through unchanged. Words that are no fault are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Cut:
    """The link breaks once after `after` bytes in a direction (`down`: to the client); `every`: each time again.

    `how`: reset (RST), fin (end of stream without a close frame), or a close code.
    """

    direction: str
    after: int
    how: str | int
    every: bool = False


@dataclass(frozen=True)
class Faults:
    """All that may be wrong with one instance's relay. The default is nothing."""

    connect_code: int = 0  # close code instead of a confirmation
    http_status: int = 0  # refusal of the upgrade
    silent: bool = False  # takes the connection and says nothing
    no_ack: bool = False
    ping: bool = False  # a WebSocket PING before each message
    fragments: bool = False  # messages in two frames
    garbage: str = ""  # after the confirmation: noise, text, oversize, short, badack, secondsid, masked, earlydata
    trailing: bool = False  # bytes after the declared length: legal
    unknown_tags: bool = False  # messages of unknown tags in between: legal
    large: bool = False  # 64 KiB of data a message: legal
    forget: bool = False  # a broken session cannot be resumed: 4001
    hold_s: float = 0.0  # each message waits this long, each way
    stall_s: float = 0.0
    stall_share: float = 0.0  # of the messages wait `stall_s` more
    cuts: tuple[Cut, ...] = field(default=())


_Reader = Callable[[Faults, "re.Match[str]"], Faults]


@dataclass(frozen=True)
class Word:
    """One fault: how it is written, what it does, for the table in the docs."""

    pattern: str
    example: str
    about: str
    read: _Reader


def _cut(how: str | int) -> _Reader:
    def read(faults: Faults, match: re.Match[str]) -> Faults:
        direction = "down" if match["way"] == "dn" else "up"
        kind = int(match["code"]) if how == "code" else how
        return replace(faults, cuts=(*faults.cuts, Cut(direction, int(match["bytes"]), kind)))

    return read


def _every(faults: Faults, match: re.Match[str]) -> Faults:
    cuts = tuple(Cut(way, int(match["bytes"]), "reset", every=True) for way in ("down", "up"))
    return replace(faults, cuts=(*faults.cuts, *cuts))


_WAY = r"(?P<way>dn|up)(?P<bytes>\d+)"
WORDS: tuple[Word, ...] = (
    Word(r"close(?P<code>\d{4})", "close4003", "the session is refused with this close code",
         lambda f, m: replace(f, connect_code=int(m["code"]))),
    Word(r"http(?P<code>\d{3})", "http403", "the upgrade is refused with this HTTP status",
         lambda f, m: replace(f, http_status=int(m["code"]))),
    Word(r"silent", "silent", "takes the connection and never confirms the session",
         lambda f, _: replace(f, silent=True)),
    Word(r"noack", "noack", "never acknowledges", lambda f, _: replace(f, no_ack=True)),
    Word(r"ping", "ping", "sends WebSocket PINGs", lambda f, _: replace(f, ping=True)),
    Word(r"frag", "frag", "sends messages in fragments", lambda f, _: replace(f, fragments=True)),
    Word(r"drop" + _WAY, "dropdn5000000", "resets TCP after so many bytes down (dn) or up", _cut("reset")),
    Word(r"fin" + _WAY, "findn5000000", "ends the stream without a close frame after so many bytes", _cut("fin")),
    Word(r"cl(?P<code>\d{4})" + _WAY, "cl4004up5000000", "sends this close code after so many bytes", _cut("code")),
    Word(r"every(?P<bytes>\d+)", "every3000000", "resets TCP after every so many bytes, both ways", _every),
    Word(r"garbage(?P<kind>noise|text|oversize|short|badack|secondsid|masked|earlydata)", "garbagetext",
         "breaks the protocol in this way", lambda f, m: replace(f, garbage=m["kind"])),
    Word(r"trailing", "trailing", "puts bytes after the declared length", lambda f, _: replace(f, trailing=True)),
    Word(r"unknowntags", "unknowntags", "sends messages of unknown tags in between",
         lambda f, _: replace(f, unknown_tags=True)),
    Word(r"large", "large", "sends up to 64 KiB of data a message", lambda f, _: replace(f, large=True)),
    Word(r"forget", "forget", "does not know a broken session any more", lambda f, _: replace(f, forget=True)),
    Word(r"hold(?P<ms>\d+)", "hold30", "holds every message so many milliseconds, each way",
         lambda f, m: replace(f, hold_s=int(m["ms"]) / 1000)),
    Word(r"stall(?P<ms>\d+)p(?P<permille>\d+)", "stall200p10",
         "holds so many per mille of the messages so many milliseconds more",
         lambda f, m: replace(f, stall_s=int(m["ms"]) / 1000, stall_share=int(m["permille"]) / 1000)),
)  # fmt: skip
_COMPILED = tuple((re.compile(word.pattern), word.read) for word in WORDS)


def by_name(instance: str) -> Faults:
    """The faults that an instance's name asks for; none for an ordinary name."""
    faults = Faults()
    for word in instance.split("-"):
        for pattern, read in _COMPILED:
            match = pattern.fullmatch(word)
            if match is not None:
                faults = read(faults, match)
                break
    return faults
