"""The watcher of a spot machine: reads EC2's notice, says so in the status, and lets running requests end.

A notice comes two minutes before the end at most; the advice to rebalance may come earlier, or never, and is only noted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from startup.onboard import aws, places
from startup.onboard.attempt import sleep
from startup.onboard.curl import Answer
from startup.onboard.report import Report, tell_nobody

EVERY_S = 5.0  # EC2's own advice
NOTICE = "meta-data/spot/instance-action"
ADVICE = "meta-data/events/recommendations/rebalance"


def watch() -> None:
    """Until the machine is taken back. Its console and log get a line for the advice, the status a sentence for the notice."""
    report = Report(places.STATE, tell_nobody)
    advised = False
    while True:
        notice = aws.imds(NOTICE)
        if notice.status == 200:
            taken(notice, report, places.SERVER_PORT)
            return
        if not advised and (advice := aws.imds(ADVICE)).status == 200:
            advised = True
            report.line(f"flexserve: EC2 advises to move on: {advice.body.strip()}", loud=True)
        sleep(EVERY_S)


def taken(notice: Answer, report: Report, port: int) -> None:
    """No new connection from here on; those that are open go on until EC2 ends the machine."""
    said = notice.document()
    at = str(said.get("time", ""))[11:16] or time.strftime("%H:%M", time.gmtime())
    cause = f"reclaimed at {at} UTC: EC2 takes the spot machine back ({said.get('action', 'terminate')})"
    with suppress(OSError, ValueError):
        os.kill(int(places.PID.read_text(encoding="ascii")), signal.SIGTERM)  # a boot that still runs would go on in vain
    try:
        state = json.loads((places.STATE / "state").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        state = {}
    report.document("state", {**state, "state": "reclaimed", "cause": cause, "updated_at": int(time.time())})
    report.line(f"flexserve: {cause}", loud=True)
    rule = ("INPUT", "-p", "tcp", "--dport", str(port), "--syn", "-j", "REJECT", "--reject-with", "tcp-reset")
    done = subprocess.run(["iptables", "-I", *rule], capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        print(f"flexserve: new connections are not refused: {done.stderr.strip()}", file=sys.stderr, flush=True)
