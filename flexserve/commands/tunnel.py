"""`flexserve tunnel`: hands the stack's access over to the tunnel, with what it needs to know when to stop."""

from __future__ import annotations

import contextlib
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING

from flexserve.output import Output
from flexserve.project import find
from verdict.errors import BadConfig, FlexserveError, Reclaimed

if TYPE_CHECKING:
    from infra.access import Access


def run(stack: str, output: Output, *, port: int | None, exec_: str | None, on_stdin: bool, remote_port: int | None = None) -> int:
    """Tunnel until Ctrl-C (130), the end of CMD (its own exit code) or of the window (8).

    The state says how the server is reached; the cloud is asked only when it is not: a third of the time to listening.
    """
    check(port=port, exec_=exec_, on_stdin=on_stdin, remote_port=remote_port)
    project = find()
    if stack not in project.stacks:
        from flexserve.lifecycle.build import recognise

        recognise(project, stack)  # before Pulumi is asked and the tunnel loaded
    with ThreadPoolExecutor(1) as reader:
        state = reader.submit(project.state, stack)  # Pulumi needs as long for it as the imports below
        threading.Thread(target=_load, name="imports", daemon=True).start()
        from flexserve.lifecycle.build import parts, reference_in
        from flexserve.lifecycle.look import look
        from flexserve.lifecycle.state import GONE, describe, time_of
        from infra.targets.protocol import State

        surroundings = parts(project, stack, output.say)
        ref = reference_in(stack, state.result())
    if ref is None:
        raise FlexserveError(f"{stack} is not up", way_out=f"flexserve up -s {stack}")
    access = ref.outputs.get("access")
    if not isinstance(access, dict):
        raise FlexserveError(f"{stack} has no access among its outputs", way_out=f"flexserve up -s {stack}")
    live = functools.cache(lambda: surroundings.live(ref))  # its client of the cloud is not made for nothing

    def expired() -> datetime | None:
        now = describe(stack, look(live(), ref))
        if now.state is State.RECLAIMED:
            raise Reclaimed("the machine was reclaimed", why=now.cause, way_out=f"flexserve up -s {stack} asks for a new one")
        return (now.expires_at or live().now()) if now.state in GONE else None

    def boot_phase() -> str | None:
        boot = live().boot(ref)
        return boot.phase if boot else None

    from flexserve.tunnel.command import DEFAULT_PORT, Command, Streams
    from flexserve.tunnel.command import run as hand_over
    from flexserve.tunnel.options import Options

    ends = time_of(ref.outputs.get("expires_at"))
    from infra.access import from_output

    options = Options(port=DEFAULT_PORT if port is None else port, expires_at=ends, expired=expired, boot_phase=boot_phase)
    command = Command(options, exec=exec_ or "", on_stdin=on_stdin, json=output.as_json)
    return hand_over(to_port(from_output(access), remote_port), command, Streams(output.out, output.err))


def check(*, port: int | None, exec_: str | None, on_stdin: bool, remote_port: int | None) -> None:
    """Raises `BadConfig` for options that do not go together, before anything is asked."""
    if exec_ is not None and not exec_.strip():
        raise BadConfig("--exec names no command", why="it is empty", way_out="name one, or leave --exec out")
    if on_stdin and exec_ is not None:
        raise BadConfig("--on-stdin and --exec exclude each other", way_out="use one of them")
    if on_stdin and port is not None:
        raise BadConfig(
            "--on-stdin and --port exclude each other",
            why="over stdin and stdout there is no local port",
            way_out="the machine's port is --remote-port",
        )
    if remote_port is not None and not on_stdin:
        raise BadConfig(
            "--remote-port needs --on-stdin",
            why="a local port reaches the server only",
            way_out="reach others through ssh: ssh -L PORT:localhost:PORT, its ProxyCommand is flexserve tunnel with --on-stdin",
        )


def to_port(access: Access, remote_port: int | None) -> Access:
    """The same machine, another port of it. Only IAP carries one: `--on-stdin` refuses the rest by name."""
    from msgspec.structs import replace

    from infra.access import Iap

    return replace(access, port=remote_port) if remote_port is not None and isinstance(access, Iap) else access


def _load() -> None:
    """What the tunnel needs; what cannot be imported is told by whoever needs it."""
    with contextlib.suppress(Exception):
        import flexserve.tunnel.command
        import flexserve.tunnel.iap.tunnel  # noqa: F401
