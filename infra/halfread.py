"""Reading a state that is just being written: asked again, a bounded number of times.

Pulumi's file backend writes a checkpoint's `.attrs` file in place (gocloud.dev `blob/fileblob/attrs.go`: create, then encode),
so a reader that comes between sees an empty file and ends with EOF. The writer needs some milliseconds. The program meets it
(the engine writes while the root resource is registered), and so does `status` beside a running `up`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
WAITS_S: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_HALF_WRITTEN = re.compile(r"\bEOF\b|unexpected end of JSON input")


def half_written(text: str) -> bool:
    """Whether an engine's refusal says that the file it read ended too early."""
    return _HALF_WRITTEN.search(text) is not None


def settled(ask: Callable[[], T], early: Callable[[T], bool], waits_s: Sequence[float] = WAITS_S) -> T:
    """`ask()`'s first answer that did not come too `early`; after the last wait whatever it says."""
    for wait_s in waits_s:
        answer = ask()
        if not early(answer):
            return answer
        time.sleep(wait_s)
    return ask()
