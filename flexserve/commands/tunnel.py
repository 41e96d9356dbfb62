"""`flexserve tunnel`: hands the stack's access over to the tunnel, with what it needs to know when to stop."""

from __future__ import annotations

from datetime import datetime

from flexserve.lifecycle.build import parts
from flexserve.lifecycle.look import look
from flexserve.lifecycle.state import GONE, describe
from flexserve.lifecycle.up import reference
from flexserve.output import Output
from flexserve.project import find
from infra.access import from_output
from verdict.errors import FlexserveError, Gone


def run(stack: str, output: Output, *, port: int, exec_: str | None, on_stdin: bool) -> int:
    """Tunnel until Ctrl-C (130), the end of CMD (its own exit code) or of the window (8)."""
    from flexserve.tunnel.command import Command, Streams
    from flexserve.tunnel.command import run as hand_over
    from flexserve.tunnel.options import Options

    surroundings = parts(find(), stack, output.say)
    ref, live = reference(surroundings)
    status = describe(stack, look(live, ref))
    if status.state in GONE:
        raise Gone(f"the deployment is {status.state}", why=status.cause, way_out=f"flexserve up -s {stack}")
    access = ref.outputs.get("access")
    if not isinstance(access, dict):
        raise FlexserveError(f"{stack} has no access among its outputs", way_out=f"flexserve up -s {stack}")

    def expired() -> datetime | None:
        now = describe(stack, look(live, ref))
        return (now.expires_at or live.now()) if now.state in GONE else None

    def boot_phase() -> str | None:
        boot = live.boot(ref)
        return boot.phase if boot else None

    options = Options(port=port, expires_at=status.expires_at, expired=expired, boot_phase=boot_phase)
    command = Command(options, exec=exec_ or "", on_stdin=on_stdin, json=output.as_json)
    return hand_over(from_output(access), command, Streams(output.out, output.err))
