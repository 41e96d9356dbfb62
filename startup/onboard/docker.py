"""The one container, by the `docker` on PATH."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from startup.onboard import causes
from startup.onboard.engine import Server
from startup.onboard.places import CONTAINER, LABEL

STOP_GRACE = 60  # seconds: an engine that is killed earlier leaves the accelerator busy


def inspect() -> Server | None:
    """The container, or None when there is none. Raises `Failed` when the engine does not answer."""
    done = _docker("inspect", "--type", "container", CONTAINER)
    if done.returncode != 0:
        if "no such" in done.stderr.lower():
            return None
        raise causes.Failed(f"{causes.say('docker-down')} ({causes.last_words(done.stderr.splitlines())})")
    about: dict[str, Any] = json.loads(done.stdout)[0]
    state = about.get("State", {})
    return Server(
        id=str(about.get("Id", "")),
        config=str((about.get("Config", {}).get("Labels") or {}).get(LABEL, "")),
        status=str(state.get("Status", "")),
        restarts=int(about.get("RestartCount", 0)),
        started_at=str(state.get("StartedAt", "")),
        exit_code=int(state.get("ExitCode", 0)),
        oom=bool(state.get("OOMKilled", False)),
    )


def stop() -> None:
    """Stop it, with time to let go of the accelerator. Not there is fine."""
    _docker("stop", "-t", str(STOP_GRACE), CONTAINER)


def remove() -> None:
    """Stop and remove it. Not there is fine."""
    if inspect() is not None:
        stop()
        _docker("rm", "-f", CONTAINER)


def run(words: Sequence[str]) -> None:
    """Start it (`words` are the whole `docker run …`). Raises `Failed` with the engine's words."""
    done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        print(done.stderr, flush=True)
        found = causes.find(done.stderr.splitlines(), "load")
        raise causes.Failed(
            found[1] if found else causes.say("container-refused", detail=causes.last_words(done.stderr.splitlines()))
        )


def log(since: str) -> Log:
    """Its output from a time stamp on; empty: all."""
    return Log(since)


class Log:
    """The server's output as (time stamp, text), each line once, over restarts of the container. Stamps sort as text."""

    def __init__(self, since: str) -> None:
        self._last = since

    def lines(self) -> list[tuple[str, str]]:
        """What was printed since the last call (at first: since `since`)."""
        options = ("--since", self._last) if self._last else ()
        done = _docker("logs", "--timestamps", *options, CONTAINER, merge=True)
        pairs = [
            (stamp, text) for stamp, _, text in (line.partition(" ") for line in done.stdout.splitlines()) if stamp[:2] == "20"
        ]
        fresh = [pair for pair in pairs if pair[0] > self._last]
        self._last = max([self._last, *(stamp for stamp, _ in fresh)])
        return fresh


def _docker(*words: str, merge: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
