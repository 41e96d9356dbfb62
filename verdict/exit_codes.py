"""The exit codes of every flexserve command: one table for the code, the help and the docs."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a flexserve command ends with. Pulumi's own exit codes are its own."""

    DONE = 0, "done"
    FAILED = 1, "failed"
    USAGE = 2, "usage error or bad config"
    REFUSED = 3, "refused by a rule, before anything was created"
    NO_CAPACITY = 4, "no capacity where it was asked for"
    NO_ACCESS = 5, "no credentials, permission or quota"
    TIMED_OUT = 6, "timed out"
    LEFT_BEHIND = 7, "something is left that bills"
    GONE = 8, "expired or reclaimed"
    CANNOT_TELL = 9, "cannot tell"
    INTERRUPTED = 130, "interrupted"

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> "ExitCode":  # a look-up by number names no meaning
        """Keep the meaning beside the number."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member
