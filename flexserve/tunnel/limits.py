"""Every time and size limit of a tunnel, in one place; seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Defaults suit a real relay; tests shorten them."""

    link_s: float = 20.0  # TCP, proxy, TLS and upgrade of one link
    confirm_s: float = 30.0  # from the upgrade to the session's confirmation; the relay dials the machine meanwhile
    open_s: float = 20.0  # a new connection is tried again this long while the network is at fault
    resume_s: float = 900.0  # a broken connection is resumed this long
    unacked: int = 32 * MIB  # bytes kept for a resend, a connection; the local reader pauses above it
    unsent: int = MIB // 2  # bytes waiting for the link before the local reader pauses
    stall_s: float = 60.0  # full queue, writable link, no acknowledgement
    linger_s: float = 5.0  # a client that is gone: its last bytes are still delivered while acknowledgements come
    half_closed_s: float = 60.0  # a client that closed its side only: how long without data before it is reset
    lull_s: float = 5.0  # over stdin that has ended: silence after which the wait for more is told; one who asked nothing then ends
    spare_s: float = 10.0  # the check's session waits this long for the first client
    ack_after_s: float = 0.5  # a lull after which what was received is acknowledged
    close_s: float = 2.0  # an orderly end of a link
    look_s: float = 5.0  # how often an open tunnel looks at the clock: has the window closed, did this machine sleep
    ask_s: float = 60.0  # how often the cloud is asked whether the machine still exists
    answer_s: float = 60.0  # how long that may take before the cloud counts as one that does not answer
    hint_s: float = 15.0  # the same where somebody waits for an error that the cloud could explain
