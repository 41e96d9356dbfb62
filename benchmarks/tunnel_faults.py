"""Our tunnel on a relay that fails in every named way, 40 MB each way, every byte checked; then 3,000 connections in a row.

    python benchmarks/tunnel_faults.py [--json] [--mb 40] [--connections 3000]

A row is good when the transfer is intact, or ends in a reset with a cause where nothing else is possible. Against a local relay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import tunnel_load as load
import tunnel_stage as stage

from flexserve.tunnel.dial import tunnel
from flexserve.tunnel.events import Event
from flexserve.tunnel.limits import MIB, Limits
from flexserve.tunnel.options import Options
from infra.access import Iap
from verdict.errors import FlexserveError

LIMITS = replace(Limits(), stall_s=10.0, confirm_s=5.0, resume_s=30.0, half_closed_s=10.0)
AFTER = 5_000_000


@dataclass(frozen=True)
class Case:
    """`expect`: intact, or the cause of the reset or refusal that is the only honest end."""

    name: str
    instance: str
    transfer: str = "both"
    expect: str = "intact"


CASES = (
    Case("no fault; the machine closes right after its last byte", "vm"),
    Case("TCP reset, downloading", f"vm-dropdn{AFTER}", "down"),
    Case("TCP reset, uploading", f"vm-dropup{AFTER}", "up"),
    Case("end without a close frame, downloading", f"vm-findn{AFTER}", "down"),
    Case("end without a close frame, uploading", f"vm-finup{AFTER}", "up"),
    Case("close 4004 (new token), downloading", f"vm-cl4004dn{AFTER}", "down"),
    Case("close 4004 (new token), uploading", f"vm-cl4004up{AFTER}", "up"),
    Case("close 1001, downloading", f"vm-cl1001dn{AFTER}", "down"),
    Case("close 1001, uploading", f"vm-cl1001up{AFTER}", "up"),
    Case("close 4000, downloading", f"vm-cl4000dn{AFTER}", "down"),
    Case("close 4000, uploading", f"vm-cl4000up{AFTER}", "up"),
    Case("reset after every 3 MB", "vm-every3000000"),
    Case("half-closed client", "vm", "half-closed"),
    Case("client that stops reading for 3 s", "vm", "slow-client"),
    Case("machine that stops reading for 3 s", "vm", "slow-machine"),
    Case("delay and stalls", "vm-hold30-stall200p10", "both"),
    Case("bytes after the declared length, unknown tags, PINGs, 64 KiB messages", "vm-trailing-unknowntags-ping-large"),
    Case("relay that never acknowledges, downloading", "vm-noack", "down"),
    Case("relay that never acknowledges, uploading more than is kept", "vm-noack", "up", "no-acks"),
    Case("relay that forgets broken sessions", f"vm-dropdn{AFTER}-forget", "down", "session-unknown"),
    Case("the machine's side is lost (4010)", f"vm-cl4010dn{AFTER}", "down", "read-failed"),
    Case("silent relay", "vm-silent", "down", "silent"),
)


def run_case(case: Case, relay: stage.RelayProcess, size: int) -> dict[str, object]:
    """One row: the outcome and the seconds it took."""
    events: list[Event] = []
    context = ssl.create_default_context(cafile=relay.ca_file)
    options = Options(token="t", url=relay.url, ssl=context, on_event=events.append, limits=LIMITS)
    began = time.perf_counter()
    outcome = "intact"
    try:
        with tunnel(Iap("demo-project", "us-central1-a", case.instance), options=options) as opened:
            for transfer in TRANSFERS[case.transfer]:
                transfer(opened.port, size)
    except FlexserveError as error:
        outcome = "silent" if "said nothing" in error.what else str(error.what)
    except ConnectionResetError:
        outcome = next((str(e.fields["cause"]) for e in reversed(events) if e.kind == "reset"), "reset without a cause")
    except (OSError, ValueError) as error:
        outcome = f"WRONG: {error}"
    resumes = sum(event.kind == "resumed" for event in events)
    seconds = round(time.perf_counter() - began, 2)
    return {"fault": case.name, "transfer": case.transfer, "outcome": outcome, "expected": case.expect, "resumes": resumes,
            "seconds": seconds, "good": outcome == case.expect}  # fmt: skip


def down(port: int, size: int, *, half_closed: bool = False, pause_s: float = 0.0) -> None:
    digest, got = hashlib.sha256(), 0
    with load.connect(port) as client:
        client.sendall(b"send %d\n" % size)
        if half_closed:
            client.shutdown(1)
        while data := client.recv(MIB):
            digest.update(data)
            if pause_s and got < AFTER <= got + len(data):
                time.sleep(pause_s)
            got += len(data)
    if got != size:
        raise ValueError(f"a clean end after {got} of {size} bytes")
    if digest.hexdigest() != load.expected_digest(size):
        raise ValueError("the bytes differ")


def up(port: int, size: int, *, command: str = "sink {size}\n") -> None:
    with load.connect(port) as client:
        client.sendall(command.format(size=size).encode())
        failure: list[OSError] = []

        def send() -> None:
            try:
                stage.send_pattern(client, size)
            except OSError as error:
                failure.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        answer, ended = "", ""
        try:
            answer = load.exactly(client, 64).decode()
        except OSError as error:
            ended = str(error)
        sender.join()
        if failure:  # one of the two threads is told of the reset, the other then sees an end
            raise ConnectionResetError from failure[0]
        if ended:
            raise ConnectionResetError if "reset" in ended else ValueError(f"a clean end instead of an answer: {ended}")
    if answer != load.expected_digest(size):
        raise ValueError("the bytes differ")


TRANSFERS: dict[str, tuple[Callable[[int, int], None], ...]] = {
    "down": (down,),
    "up": (up,),
    "both": (down, up),
    "half-closed": (lambda port, size: down(port, size, half_closed=True),),
    "slow-client": (lambda port, size: down(port, size, pause_s=3.0),),
    "slow-machine": (lambda port, size: up(port, size, command="slow {size} 3000\n"),),
}


def in_a_row(relay: stage.RelayProcess, count: int) -> dict[str, object]:
    """Connections one after another through our command: failures, and its memory early and late."""
    failures, early, began = 0, 0.0, time.perf_counter()
    with stage.ours(relay, "vm") as running:
        for number in range(count):
            try:
                with load.connect(running.port) as client:
                    client.sendall(b"echo\n" + b"x" * 64)
                    load.exactly(client, 64)
            except OSError:
                failures += 1
            if number == count // 6:
                early = running.rss_mb()
        late = running.rss_mb()
    good = failures == 0 and late - early < 8
    return {"connections": count, "failures": failures, "rss_mb_early": round(early, 1), "rss_mb_late": round(late, 1),
            "seconds": round(time.perf_counter() - began, 1), "good": good}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mb", type=int, default=40)
    parser.add_argument("--connections", type=int, default=3000)
    chosen = parser.parse_args()
    if chosen.mb < 36:
        parser.error("--mb: at least 36, or an upload fits into what is kept for a resend and nothing is seen")
    rows = []
    with stage.machine() as port, stage.relay(port) as relay:
        for case in CASES:
            rows.append(run_case(case, relay, chosen.mb * 1_000_000))
            row = rows[-1]
            sign = "ok " if row["good"] else "BAD"
            print(f"{sign} {row['fault']}: {row['outcome']} ({row['seconds']} s, {row['resumes']} resumed)", file=sys.stderr)
        row = in_a_row(relay, chosen.connections)
        print(f"{'ok ' if row['good'] else 'BAD'} {row}", file=sys.stderr)
    failed = sum(not line["good"] for line in [*rows, row])
    document = {"note": "against a local relay", "mb": chosen.mb, "rows": rows, "in_a_row": row, "failed": failed}
    print(json.dumps(document, indent=1) if chosen.json else f"{len(rows) + 1} rows, {failed} failed; against a local relay")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
