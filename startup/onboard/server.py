"""From weights to an answer: exactly one server, watched through load and compile until it serves.

What runs it is an `Engine`: a container of Docker's, or a unit of systemd's. A server of the same configuration is left alone
while it serves or still starts; another, a stopped one, one that served and answers no more, or one that has been starting for
longer than the phases allow is replaced.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from startup.onboard import causes, chat, places
from startup.onboard.attempt import sleep
from startup.onboard.engine import Engine, Server, named

LOADED = re.compile(
    r"Loading weights took|Model loading took|checkpoint shards: 100%|KV cache size: [\d,]+ tokens|(?:[Ww]eights|[Mm]odel) loaded"
)
COMPILED = re.compile(r"init engine \(.*\) took|Compilation finished|Application startup complete")
STARTED = re.compile(r"Application startup complete|Uvicorn running on")
CRASHES = 3
WRONG_ANSWERS = 3
POLL, LONG_POLL, PATIENCE = 0.1, 2.0, 30  # seconds, seconds, polls before the long one


@dataclass(frozen=True)
class Wanted:
    """The server that the script asks for. `starting_s`: how long a start may take."""

    config: str
    port: int
    chat: bool
    starting_s: int
    run: Sequence[str] = ()
    engine: Engine = field(default_factory=lambda: named("docker"))


class Watch:
    """One phase's view of the server: its new lines, its crashes."""

    def __init__(self, wanted: Wanted, phase: str) -> None:
        self._wanted = wanted
        self._phase = phase
        self._memory = remembered()
        self._tail: deque[str] = deque(maxlen=200)
        self._polls = 0
        self.server: Server | None = None  # as the last look found it
        self._log = self._wanted.engine.log(str(self._memory.get("since", "")))

    def until(self, pattern: re.Pattern[str]) -> str:
        """Wait for the log line, or for `/health`: what ended the wait. Raises `Failed` when the server cannot come up."""
        while True:
            for line in self.look():
                if pattern.search(line):
                    return line.strip()
            if chat.healthy(self._wanted.port):
                return "the server is up"
            self.pause()

    def look(self) -> list[str]:
        """New lines, shown; a crash is judged. Raises `Failed`."""
        self.server = before = self._wanted.engine.inspect()
        lines = self._show(self._log.lines())
        if before is None:
            raise causes.Failed(causes.say("crash-loop", times=1, detail="the server was removed by somebody else"))
        restarts = self._memory.get("restarts", 0)
        if not before.running or before.restarts > restarts:
            self._crashed(before)
        return lines

    def _show(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """All lines since the start are searched by every phase; each is printed by one."""
        printed = str(self._memory.get("printed", ""))
        for stamp, text in pairs:
            self._tail.append(text)
            if stamp > printed:
                print(text, flush=True)
        if pairs:
            self._remember(printed=max(printed, pairs[-1][0]))
        return [text for _, text in pairs]

    def pause(self) -> None:
        """Between two looks: short at first, since a small model starts quickly."""
        self._polls += 1
        sleep(POLL if self._polls < PATIENCE else LONG_POLL)

    def _crashed(self, server: Server) -> None:
        crashes = max(server.restarts - int(self._memory.get("first", 0)), 1 if not server.running else 0)
        self._remember(restarts=server.restarts)
        found = causes.find(self._tail, self._phase)
        if found and found[0].id == "accelerator-busy" and not self._memory.get("busy"):
            print("the accelerator is still held: stopping the server, starting it once more", flush=True)
            self._remember(busy=True)
            self._wanted.engine.remove()
            sleep(5)
            start(self._wanted, busy=True)
            self._memory = remembered()
            self._tail.clear()
            self._log = self._wanted.engine.log("")
            return
        if server.oom and found is None:
            text = causes.say("host-out-of-memory")
        elif found:
            text = found[1]
        elif self._phase == "serving" and self._memory.get("asked"):
            text = causes.say("chat-crash", detail=causes.last_words(list(self._tail)))
        elif crashes >= CRASHES or server.status in ("exited", "dead", "created"):
            text = causes.say("crash-loop", times=crashes, detail=causes.last_words(list(self._tail)))
        else:
            causes.note(causes.say("crash-loop", times=crashes, detail=causes.last_words(list(self._tail))))
            return
        self._wanted.engine.stop()  # it would go on for ever
        raise causes.Failed(text)

    def asked(self) -> None:
        """From here on, a crash came from a question."""
        self._remember(asked=True)

    def _remember(self, **facts: object) -> None:
        self._memory = {**self._memory, **facts}
        places.SERVER.write_text(json.dumps(self._memory), encoding="utf-8")


def load(wanted: Wanted) -> int:
    """Phase `load`. Returns an exit status: `SKIPPED` when there was nothing to do."""
    server = wanted.engine.inspect()
    if server is not None and server.running and server.config == wanted.config:
        verdict = chat.probe(wanted.port, chat=wanted.chat, seconds=30)
        if verdict.kind == "answered":
            adopt(server, healthy=True)
            print("a server of this configuration serves: left alone", flush=True)
            return places.SKIPPED
        if still_starting(server, wanted):
            print("a server of this configuration is starting: waiting for it", flush=True)
            adopt(server, healthy=False)
            print(Watch(wanted, "load").until(LOADED), flush=True)
            return 0
        print(f"the server does not answer any more ({verdict.detail}): replacing it", flush=True)
    elif server is not None:
        print(f"replacing a server that is {server.status}, configuration {server.config or 'unknown'}", flush=True)
    if server is not None:
        wanted.engine.remove()
    start(wanted)
    print(Watch(wanted, "load").until(LOADED), flush=True)
    return 0


def compile_(wanted: Wanted) -> int:
    """Phase `compile`."""
    if remembered().get("healthy"):
        return places.SKIPPED
    print(Watch(wanted, "compile").until(COMPILED), flush=True)
    return 0


def serving(wanted: Wanted) -> int:
    """Phase `serving`: the number asked for comes back."""
    watch = Watch(wanted, "serving")
    wrong = refused = 0
    while True:
        watch.look()
        if chat.healthy(wanted.port):
            watch.asked()
        verdict = chat.probe(wanted.port, chat=wanted.chat)
        watch.look()
        if verdict.kind == "answered":
            print(f"asked for {verdict.detail}, and got it", flush=True)
            if watch.server is not None:
                served(watch.server)
            return 0
        wrong += verdict.kind == "wrong"
        refused += verdict.kind == "refused"
        if wrong >= WRONG_ANSWERS:
            raise causes.Failed(causes.say("chat-wrong", detail=verdict.detail))
        if verdict.kind in ("wrong", "refused"):
            print(verdict.detail, flush=True)
            causes.note(causes.say("chat-wrong" if verdict.kind == "wrong" else "chat-refused", detail=verdict.detail))
        watch.pause()


def still_starting(server: Server, wanted: Wanted) -> bool:
    """Whether a server that does not answer yet may: it has not served since its start, and its time is not up."""
    last = remembered_served()
    if last == {"id": server.id, "started_at": server.started_at}:
        return False
    return age(server.started_at) < wanted.starting_s


def age(started_at: str) -> float:
    """Seconds since the engine's time stamp; 0 for one that cannot be read."""
    found = re.match(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)", started_at)
    if not found:
        return 0.0
    import calendar

    year, month, day, hour, minute, second = (int(part) for part in found.groups())
    return time.time() - calendar.timegm((year, month, day, hour, minute, second))


def start(wanted: Wanted, *, busy: bool = False) -> None:
    """A new server, and what the phases after this one must know of it."""
    wanted.engine.run(wanted.run)
    server = wanted.engine.inspect()
    if server is not None:
        places.SERVER.write_text(json.dumps({"id": server.id, "restarts": 0, "first": 0, "busy": busy}), encoding="utf-8")


def adopt(server: Server, *, healthy: bool) -> None:
    """Go on with a server that an earlier run started."""
    facts = {
        "id": server.id,
        "restarts": server.restarts,
        "first": server.restarts,
        "since": server.started_at,
        "healthy": healthy,
    }
    places.SERVER.write_text(json.dumps(facts), encoding="utf-8")


def served(server: Server) -> None:
    """Keep that this start of the server has served."""
    facts = {"id": server.id, "started_at": server.started_at}
    with suppress(OSError):  # a full disk does not undo an answer
        (places.STATE / "served").write_text(json.dumps(facts), encoding="utf-8")


def remembered() -> dict[str, Any]:
    """What the phases of this run know of the server."""
    return _read(places.SERVER)


def remembered_served() -> Mapping[str, Any]:
    """Which start of which server served last."""
    return _read(places.STATE / "served")


def _read(place: Any) -> dict[str, Any]:
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
