"""The one server as a unit of systemd's, by the `systemctl` and `journalctl` on PATH.

What it runs is a small script of its own: systemd's quoting is not a shell's. The unit is not enabled: the boot starts it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from startup.onboard import causes, places
from startup.onboard.engine import Server

NAME = "flexserve-vllm.service"
FILE = Path("/etc/systemd/system") / NAME
STOP_GRACE = 60  # seconds: an engine that is killed earlier leaves the accelerator busy
FACTS = ("ActiveState", "SubState", "NRestarts", "ExecMainStartTimestamp", "ExecMainStatus", "Result")
UNIT = """# flexserve.config={config}
[Unit]
Description=flexserve: vLLM
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/bash {script}
Restart=always
RestartSec=5
TimeoutStopSec={grace}
KillMode=mixed
OOMPolicy=stop
LogRateLimitIntervalSec=0
"""


def inspect() -> Server | None:
    """The unit, or None when there is none. Raises `Failed` when systemd does not answer."""
    try:
        text, made = FILE.read_text(encoding="utf-8"), FILE.stat().st_mtime_ns
    except OSError:
        return None
    done = _run("systemctl", "show", "--timestamp=unix", *(f"--property={fact}" for fact in FACTS), NAME)
    if done.returncode != 0:
        raise causes.Failed(f"{causes.say('failed', status=done.returncode)} ({causes.last_words(done.stderr.splitlines())})")
    facts = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    config = re.search(r"^# flexserve\.config=(\S+)$", text, re.MULTILINE)
    return Server(
        id=f"{made:x}",
        config=config[1] if config else "",
        status=status(facts.get("ActiveState", ""), facts.get("SubState", "")),
        restarts=_number(facts.get("NRestarts", "")),
        started_at=stamp(_number(facts.get("ExecMainStartTimestamp", "").lstrip("@")) * 1_000_000),
        exit_code=_number(facts.get("ExecMainStatus", "")),
        oom=facts.get("Result") == "oom-kill",
    )


def status(active: str, sub: str) -> str:
    """Systemd's state in the engine's words."""
    if active == "active":
        return "running"
    if active in ("activating", "reloading"):
        return "restarting" if sub == "auto-restart" else "running"
    return "exited"


def stamp(micros: int) -> str:
    """Microseconds of the epoch as RFC 3339 text that sorts by time."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000)) + f".{micros % 1_000_000:06d}Z"


def stop() -> None:
    """Stop it. Not there is fine."""
    _run("systemctl", "stop", NAME)


def remove() -> None:
    """Stop it and take it away. Not there is fine."""
    if FILE.exists():
        stop()
        FILE.unlink(missing_ok=True)
        _run("systemctl", "daemon-reload")
        _run("systemctl", "reset-failed", NAME)


def run(words: Sequence[str]) -> None:
    """Start it. `words`: the configuration's hash, then the command as `env` takes it. Raises `Failed` with systemd's words."""
    config, *command = words
    script = places.STATE / "serve"
    _write(script, f"#!/bin/bash\nexec env {shlex.join(command)}\n")
    _write(FILE, UNIT.format(config=config, script=script, grace=STOP_GRACE))
    for argv in (("systemctl", "daemon-reload"), ("systemctl", "start", "--no-block", NAME)):
        done = _run(*argv)
        if done.returncode != 0:
            detail = causes.last_words(done.stderr.splitlines())
            raise causes.Failed(f"{causes.say('failed', status=done.returncode)} ({' '.join(argv)}: {detail})")


def log(since: str) -> Log:
    """Its output from a time stamp on; empty: all."""
    return Log(since)


class Log:
    """The server's output as (time stamp, text), each line once, over restarts. Only its own: not what systemd says of it."""

    def __init__(self, since: str) -> None:
        self._last = since
        self._cursor = ""

    def lines(self) -> list[tuple[str, str]]:
        """What was printed since the last call (at first: since `since`)."""
        match = ("--no-pager", "--output=json", "--output-fields=MESSAGE", f"_SYSTEMD_UNIT={NAME}")
        start = (f"--after-cursor={self._cursor}",) if self._cursor else ()
        pairs = []
        for line in _run("journalctl", *start, *match).stdout.splitlines():
            try:
                entry = json.loads(line)
                at = stamp(int(entry["__REALTIME_TIMESTAMP"]))
            except (ValueError, KeyError, TypeError):
                continue
            self._cursor = str(entry.get("__CURSOR", self._cursor))
            message = entry.get("MESSAGE") or ""
            text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
            if at > self._last:
                pairs.append((at, text))
        return pairs


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
