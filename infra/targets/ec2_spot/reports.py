"""What the machine says about itself, asked through Systems Manager: its boot documents and its log.

An answer is at most 24,000 characters; the log is taken in pieces, in base64, so that offsets are bytes of the file.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from infra.clouds.aws.session import NotThere
from infra.targets.protocol import SHORT
from startup.spec import STATE_DIR

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session

LOG = f"{STATE_DIR}/boot.log"
PIECE = 17_000  # bytes; 22,668 characters in base64
ENDED = frozenset({"Success", "Failed", "TimedOut", "Cancelled", "Undeliverable", "Terminated"})
TIMEOUT_S = 30  # the least that Systems Manager takes for the delivery
LOOKS, LOOK_S = 40, 0.25
DOCUMENTS = (
    f'cd {STATE_DIR} 2>/dev/null || exit 0; for f in state phase-*; do [ -f "$f" ] || continue; '
    'printf "%s\\t" "$f"; tr -d "\\n" <"$f"; echo; done'
)


def documents(session: Session, instance_id: str) -> dict[str, str] | None:
    """The documents that the boot wrote, by name; None when the machine does not answer (yet, or any more)."""
    answer = run(session, instance_id, DOCUMENTS)
    if answer is None:
        return None
    lines = (line.partition("\t") for line in answer.splitlines())
    return {name: text for name, sign, text in lines if sign}


def log(session: Session, instance_id: str, since: int) -> tuple[str, int] | None:
    """The log from a byte on, and the next byte; None when the machine does not answer or has no log."""
    answer = run(session, instance_id, f"[ -f {LOG} ] && tail -c +{since + 1} {LOG} | head -c {PIECE} | base64 -w 0")
    if answer is None:
        return None
    try:
        data = base64.b64decode(answer.strip(), validate=True)
    except binascii.Error:
        return None
    if len(data) == PIECE and b"\n" in data[SHORT:]:
        data = data[
            : data.rindex(b"\n") + 1
        ]  # whole lines, so that no letter is cut in two; and never a short piece, which would be the last
    return data.decode("utf-8", "replace"), since + len(data)


def run(session: Session, instance_id: str, command: str) -> str | None:
    """What a command prints on the machine, where it ended well. None when Systems Manager does not reach the machine."""
    try:
        sent = session.call(
            "ssm",
            "send_command",
            InstanceIds=[instance_id],
            DocumentName="AWS-RunShellScript",
            Parameters={"commands": [command]},
            TimeoutSeconds=TIMEOUT_S,
        )
    except NotThere:  # the agent has not come up, or the machine is gone
        return None
    command_id = sent["Command"]["CommandId"]
    for _ in range(LOOKS):
        try:
            found = session.call("ssm", "get_command_invocation", CommandId=command_id, InstanceId=instance_id)
        except NotThere:  # the news of a command travels
            found = {}
        if found.get("Status") in ENDED:
            return str(found.get("StandardOutputContent", "")) if found["Status"] == "Success" else None
        session.pause(LOOK_S)
    return None
