"""What a connection tells whoever owns it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flexserve.tunnel.iap.codes import TunnelFailure

if TYPE_CHECKING:
    from flexserve.tunnel.iap.connection import Connection


@dataclass(frozen=True)
class Ended:
    """How a connection ended. `failure` is None for a clean end; `why` then says more of one that was ours."""

    failure: TunnelFailure | None
    resumes: int
    why: str = ""


@dataclass(frozen=True)
class Hooks:
    """All optional, all called in the event loop.

    `start`: a client came. `resume`: its link broke. `trouble`: a link could not be opened, and is tried again. `link`: one was
    opened. `lull`: only over stdin, which then has ended: the machine says nothing more. `end`: once.
    """

    start: Callable[[Connection], None] = lambda _: None
    resume: Callable[[Connection, TunnelFailure], None] = lambda *_: None
    trouble: Callable[[Connection, TunnelFailure], None] = lambda *_: None
    link: Callable[[], None] = lambda: None
    lull: Callable[[Connection], None] | None = None
    end: Callable[[Connection, Ended], None] = lambda *_: None
