"""The model's files from the Hub, at one revision: resumed where a download broke off, checked, complete or not called so.

A file has its own name only after its size (and, for large ones, its SHA-256) was found right and it was written through to
the disk; until then it is `NAME.part`. `.complete` comes last.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from startup.onboard import causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer, ask

HUB = "https://huggingface.co"
COMPLETE = ".complete"
TOGETHER = 4  # downloads at a time
WRONG_BYTES = 3
LONGEST_PAUSE = 60.0
# Other formats of the same weights, and pages for people: vLLM reads none of them.
UNWANTED = ("original/*", "*.gguf", "*.onnx", "onnx/*", "*.pth", "*.h5", "*.msgpack", "*.tflite", "*.litertlm", "*.task")
PAGES = (".gitattributes", "README.md", "*.png", "*.jpg", "*.pdf")
UNWANTED_BESIDE_SAFETENSORS = ("*.bin", "*.pt")


@dataclass(frozen=True)
class Entry:
    """A file of the model. `sha256` is None for small files, whose size alone is known."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Source:
    """Which model, and with whose token (the secret's name; empty: anonymous)."""

    model: str
    revision: str
    secret: str

    def facts(self) -> Mapping[str, str]:
        """What the causes may name."""
        return {"model": self.model, "revision": self.revision, "secret": self.secret}


def download(source: Source, folder: Path) -> None:
    """Make `folder` complete. Raises `Failed`; waits as the Hub asks while it throttles or does not answer."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = listing(source)
    missing = [entry for entry in entries if not _there(folder / entry.name, entry.size)]
    check_space(folder, missing)
    print(f"{len(entries)} files, {sum(e.size for e in entries) / 1e9:.2f} GB; {len(missing)} to fetch", flush=True)
    pool = ThreadPoolExecutor(TOGETHER)
    try:
        for _ in pool.map(lambda entry: fetch(source, entry, folder), missing):
            pass
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after a failure nobody waits for the others
    names = json.dumps({"model": source.model, "revision": source.revision, "files": {e.name: e.size for e in entries}})
    _write_through(folder / COMPLETE, names)


def listing(source: Source) -> Sequence[Entry]:
    """What the model consists of, without what vLLM does not read."""
    url = f"{HUB}/api/models/{quote(source.model)}/revision/{quote(source.revision)}?blobs=true"
    for pause in pauses(LONGEST_PAUSE):
        answer = ask(url, "-L", header_file=places.HUB_HEADER)
        if answer.status == 200:
            return wanted(answer.document().get("siblings"))
        wait(source, answer, pause)
    raise AssertionError("the pauses have no end")


def wanted(siblings: Any) -> Sequence[Entry]:
    """The files to fetch, of the Hub's own list. Raises `Failed` for a name that would leave the folder."""
    entries = []
    for sibling in siblings if isinstance(siblings, list) else []:
        name, lfs = str(sibling["rfilename"]), sibling.get("lfs") or {}
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or not name.isprintable():
            raise causes.Failed(f"the Hub lists a file named {name!r}, which is no name inside a folder")
        entries.append(Entry(name, int(lfs.get("size") or sibling.get("size") or 0), lfs.get("sha256")))
    safetensors = any(entry.name.endswith(".safetensors") for entry in entries)
    patterns = UNWANTED + PAGES + (UNWANTED_BESIDE_SAFETENSORS if safetensors else ())
    return [entry for entry in entries if not any(fnmatch(entry.name, pattern) for pattern in patterns)]


def fetch(source: Source, entry: Entry, folder: Path) -> None:
    """One file: as often as it takes, from where the last try ended."""
    place, part = folder / entry.name, folder / f"{entry.name}.part"
    place.parent.mkdir(parents=True, exist_ok=True)
    url = f"{HUB}/{quote(source.model)}/resolve/{quote(source.revision)}/{quote(entry.name)}"
    if entry.size == 0:
        part.touch()
    wrong, tries = 0, pauses(LONGEST_PAUSE)
    while wrong < WRONG_BYTES:
        have = part.stat().st_size if part.exists() else 0
        if have < entry.size or not part.exists():
            answer = transfer(url, part)
            if answer.status not in (200, 206):
                wait(source, answer, next(tries))
                continue
        if right(part, entry):
            _settle(part, place)
            return
        part.unlink()
        wrong += 1
    raise causes.Failed(causes.say("weights-corrupt", file=entry.name))


def transfer(url: str, part: Path) -> Answer:
    """One try of a download into `part`. Status 0: it broke off, and what arrived is kept."""
    words = ["curl", "-sSLf", "-C", "-", "--connect-timeout", "15", "--speed-limit", "1024", "--speed-time", "60"]
    if places.HUB_HEADER.exists():
        words += ["-H", f"@{places.HUB_HEADER}"]
    heads = part.with_name(part.name + ".head")
    done = subprocess.run(
        [*words, "-D", str(heads), "-o", str(part), "-w", "%{http_code}", url],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    head = heads.read_text(encoding="latin-1") if heads.exists() else ""
    heads.unlink(missing_ok=True)
    error = done.stderr.strip().removeprefix("curl: ")
    if done.returncode in (33, 36) or done.stdout == "416":  # no ranges there, or none that fits what we have
        part.unlink(missing_ok=True)
        return Answer(0, "", error, head)
    if done.returncode == 23 and ("space" in error or os.statvfs(part.parent).f_bavail == 0):
        raise causes.Failed(causes.say("no-space"))
    ok = done.returncode in (0, 22) and done.stdout.isdigit()
    return Answer(int(done.stdout) if ok else 0, "", error, head)


def wait(source: Source, answer: Answer, pause: float) -> None:
    """Sleep before the next try, as long as the Hub asks if it does. Raises `Failed` when none can help."""
    cause = refusal(answer, bool(source.secret))
    text = causes.say(cause, **source.facts(), detail=answer.error or f"HTTP {answer.status}")
    if not causes.BY_ID[cause].retry:
        raise causes.Failed(text)
    asked = answer.header("retry-after")
    pause = float(asked) if answer.status == 429 and asked.isdigit() else pause
    causes.note(text)
    print(f"again in {pause:g} s: {text}", flush=True)
    sleep(pause)


def refusal(answer: Answer, with_token: bool) -> str:
    """The cause behind an answer that is no file. `X-Error-Code` is the Hub's own word for it."""
    code = answer.header("x-error-code")
    if answer.status == 429:
        return "hub-throttled" if with_token else "hub-throttled-anonymous"
    if answer.status == 403 or (answer.status == 401 and code == "GatedRepo"):
        return "hub-licence" if with_token else "hub-needs-token"
    if answer.status == 401:
        return "hub-needs-token" if not with_token else "hub-not-found" if code == "RepoNotFound" else "hub-unauthorized"
    return "hub-not-found" if answer.status in (400, 404, 410) else "hub-unreachable"


def right(part: Path, entry: Entry) -> bool:
    """Size and, where the Hub tells it, SHA-256."""
    if not _there(part, entry.size):
        print(f"{entry.name}: {part.stat().st_size} of {entry.size} bytes", flush=True)
        return False
    if entry.sha256 is None:
        return True
    digest = hashlib.sha256()
    with part.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != entry.sha256:
        print(f"{entry.name}: SHA-256 is {digest.hexdigest()}, not {entry.sha256}", flush=True)
        return False
    return True


def check_space(folder: Path, missing: Sequence[Entry]) -> None:
    """Raise `Failed` before the transfer when the rest of it does not fit."""
    parts = sum(part.stat().st_size for part in folder.rglob("*.part"))
    need = sum(entry.size for entry in missing) - parts
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if need > free:
        raise causes.Failed(f"{causes.say('no-space')} ({need / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free)")


def _there(place: Path, size: int) -> bool:
    return place.is_file() and place.stat().st_size == size


def _settle(part: Path, place: Path) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(place)


def _write_through(place: Path, text: str) -> None:
    fresh = place.with_name(place.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    for folder in {path.parent for path in place.parent.rglob("*")}:  # the names of the files, too
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    fresh.replace(place)
