"""The process's own streams: one that is closed, one that cannot take every character, one whose reader has gone."""

from __future__ import annotations

import io
import os
import sys


def open_streams() -> None:
    """A stream that was closed before we began (`<&-`, a daemon's) reads and writes nothing; Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # as Python has stderr: a character that it cannot take stops nothing
        sys.stdout.reconfigure(errors="backslashreplace")


def nowhere(*descriptors: int) -> None:
    """What is still in the buffers goes nowhere: at its end Python would complain about it once more."""
    for descriptor in descriptors:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
