"""From image and weights to an answer: exactly one container, watched through load and compile until it serves.

A container of the same configuration is left alone while it serves or still starts; another, a stopped one, one that served
and answers no more, or one that has been starting for longer than the phases allow is replaced.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from startup.onboard import causes, chat, docker, places
from startup.onboard.attempt import sleep

LOADED = re.compile(
    r"Loading weights took|Model loading took|checkpoint shards: 100%|KV cache size: [\d,]+ tokens|(?:[Ww]eights|[Mm]odel) loaded"
)
COMPILED = re.compile(r"init engine \(.*\) took|Compilation finished|Application startup complete")
STARTED = re.compile(r"Application startup complete|Uvicorn running on")
CRASHES = 3
WRONG_ANSWERS = 3
POLL, LONG_POLL, PATIENCE = 0.3, 2.0, 20  # seconds, seconds, polls before the long one


@dataclass(frozen=True)
class Wanted:
    """The container that the script asks for. `starting_s`: how long a start may take."""

    config: str
    port: int
    chat: bool
    starting_s: int
    run: Sequence[str] = ()


class Watch:
    """One phase's view of the container: its new lines, its crashes."""

    def __init__(self, wanted: Wanted, phase: str) -> None:
        self._wanted = wanted
        self._phase = phase
        self._memory = remembered()
        self._tail: deque[str] = deque(maxlen=200)
        self._polls = 0
        self._log = docker.Log(str(self._memory.get("since", "")))

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
        before = docker.inspect()
        lines = self._show(self._log.lines())
        if before is None:
            raise causes.Failed(causes.say("crash-loop", times=1, detail="the container was removed by somebody else"))
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

    def _crashed(self, container: docker.Container) -> None:
        crashes = max(container.restarts - int(self._memory.get("first", 0)), 1 if not container.running else 0)
        self._remember(restarts=container.restarts)
        found = causes.find(self._tail, self._phase)
        if found and found[0].id == "accelerator-busy" and not self._memory.get("busy"):
            print("the accelerator is still held: stopping the container, starting it once more", flush=True)
            self._remember(busy=True)
            docker.remove()
            sleep(5)
            start(self._wanted, busy=True)
            self._memory = remembered()
            self._tail.clear()
            self._log = docker.Log("")
            return
        if container.oom and found is None:
            text = causes.say("host-out-of-memory")
        elif found:
            text = found[1]
        elif self._phase == "serving" and self._memory.get("asked"):
            text = causes.say("chat-crash", detail=causes.last_words(list(self._tail)))
        elif crashes >= CRASHES or container.status in ("exited", "dead", "created"):
            text = causes.say("crash-loop", times=crashes, detail=causes.last_words(list(self._tail)))
        else:
            causes.note(causes.say("crash-loop", times=crashes, detail=causes.last_words(list(self._tail))))
            return
        docker.stop()  # it would go on for ever
        raise causes.Failed(text)

    def asked(self) -> None:
        """From here on, a crash came from a question."""
        self._remember(asked=True)

    def _remember(self, **facts: object) -> None:
        self._memory = {**self._memory, **facts}
        places.SERVER.write_text(json.dumps(self._memory), encoding="utf-8")


def load(wanted: Wanted) -> int:
    """Phase `load`. Returns an exit status: `SKIPPED` when there was nothing to do."""
    container = docker.inspect()
    if container is not None and container.running and container.config == wanted.config:
        verdict = chat.probe(wanted.port, chat=wanted.chat, seconds=30)
        if verdict.kind == "answered":
            adopt(container, healthy=True)
            print("a container of this configuration serves: left alone", flush=True)
            return places.SKIPPED
        if still_starting(container, wanted):
            print("a container of this configuration is starting: waiting for it", flush=True)
            adopt(container, healthy=False)
            print(Watch(wanted, "load").until(LOADED), flush=True)
            return 0
        print(f"the container does not serve any more ({verdict.detail}): replacing it", flush=True)
    elif container is not None:
        print(f"replacing a container that is {container.status}, configuration {container.config or 'unknown'}", flush=True)
    docker.remove()
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
            container = docker.inspect()
            if container is not None:
                served(container)
            return 0
        wrong += verdict.kind == "wrong"
        refused += verdict.kind == "refused"
        if wrong >= WRONG_ANSWERS:
            raise causes.Failed(causes.say("chat-wrong", detail=verdict.detail))
        if verdict.kind in ("wrong", "refused"):
            print(verdict.detail, flush=True)
            causes.note(causes.say("chat-wrong" if verdict.kind == "wrong" else "chat-refused", detail=verdict.detail))
        watch.pause()


def still_starting(container: docker.Container, wanted: Wanted) -> bool:
    """Whether a container that does not answer yet may: it has not served since its start, and its time is not up."""
    last = remembered_served()
    if last == {"id": container.id, "started_at": container.started_at}:
        return False
    return age(container.started_at) < wanted.starting_s


def age(started_at: str) -> float:
    """Seconds since the engine's time stamp; 0 for one that cannot be read."""
    found = re.match(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)", started_at)
    if not found:
        return 0.0
    import calendar

    year, month, day, hour, minute, second = (int(part) for part in found.groups())
    return time.time() - calendar.timegm((year, month, day, hour, minute, second))


def start(wanted: Wanted, *, busy: bool = False) -> None:
    """A new container, and what the phases after this one must know of it."""
    docker.run(wanted.run)
    container = docker.inspect()
    if container is not None:
        places.SERVER.write_text(json.dumps({"id": container.id, "restarts": 0, "first": 0, "busy": busy}), encoding="utf-8")


def adopt(container: docker.Container, *, healthy: bool) -> None:
    """Go on with a container that an earlier run started."""
    facts = {
        "id": container.id,
        "restarts": container.restarts,
        "first": container.restarts,
        "since": container.started_at,
        "healthy": healthy,
    }
    places.SERVER.write_text(json.dumps(facts), encoding="utf-8")


def served(container: docker.Container) -> None:
    """Keep that this start of the container has served."""
    facts = {"id": container.id, "started_at": container.started_at}
    with suppress(OSError):  # a full disk does not undo an answer
        (places.STATE / "served").write_text(json.dumps(facts), encoding="utf-8")


def remembered() -> dict[str, Any]:
    """What the phases of this run know of the container."""
    return _read(places.SERVER)


def remembered_served() -> Mapping[str, Any]:
    """Which start of which container served last."""
    return _read(places.STATE / "served")


def _read(place: Any) -> dict[str, Any]:
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
