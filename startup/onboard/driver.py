"""The card, before anything long: the driver answers, and it is the card that the plan was made for."""

from __future__ import annotations

import shutil
import subprocess

from startup.onboard import causes
from startup.onboard.attempt import pauses, sleep

QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total", "--format=csv,noheader,nounits")


def check(gpu: str, capability: str) -> None:
    """Raises `Failed` for another card or an image without a driver; a driver that still loads is waited for."""
    if shutil.which(QUERY[0]) is None:
        raise causes.Failed(causes.say("no-driver"))
    for pause in pauses(10.0):
        done = subprocess.run(QUERY, capture_output=True, encoding="utf-8", errors="replace", check=False)
        cards = [[field.strip() for field in line.split(",")] for line in done.stdout.splitlines() if line.count(",") >= 3]
        if done.returncode == 0 and cards:
            break
        reason = causes.say("driver-down", detail=causes.last_words((done.stdout + done.stderr).splitlines()))
        causes.note(reason)
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)
    for name, found, version, memory in (card[:4] for card in cards):
        print(f"{name}, compute capability {found}, driver {version}, {memory} MiB", flush=True)
        if found != capability or gpu not in name:
            wanted = f"{gpu} with compute capability {capability}"
            raise causes.Failed(causes.say("wrong-gpu", found=f"{name} with {found}", wanted=wanted))
