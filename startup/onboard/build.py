"""The kept build: vLLM compiled once for this card, taken from the bucket, checked against its manifest, unpacked in one step.

`manifest.json` names the archive, its size and SHA-256, and what it was compiled for; the archive holds `venv/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from startup.onboard import aws, causes
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer

MANIFEST = "manifest.json"
COMPLETE = ".complete"
LONGEST_PAUSE = 15.0
WRONG_BYTES = 2


@dataclass(frozen=True)
class Kept:
    """Where it is kept (`folder` ends in no slash), and for which compute capability it must be."""

    region: str
    bucket: str
    folder: str
    capability: str

    @property
    def key(self) -> str:
        """Its name."""
        return self.folder.rpartition("/")[2]


class Missing(causes.Failed):
    """The bucket holds none that this machine may read."""


def take(kept: Kept, place: Path) -> None:
    """Make `place` the unpacked build. Raises `Failed`; waits while the bucket does not answer."""
    aws.wait_for_credentials()
    manifest = _manifest(kept)
    arch = f"sm_{kept.capability.replace('.', '')}"
    if arch not in manifest["arch_list"]:
        raise causes.Failed(causes.say("build-without-arch", found=" ".join(manifest["arch_list"]), wanted=kept.capability))
    place.parent.mkdir(parents=True, exist_ok=True)
    archive = place.with_name(f"{place.name}.archive")
    _archive(kept, manifest, archive)
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    unpacked = subprocess.run(["tar", "-xf", archive, "-C", fresh], stderr=subprocess.STDOUT, check=False)
    if unpacked.returncode != 0:
        archive.unlink()
        raise causes.Failed(causes.say("build-damaged", key=kept.key, detail="the archive does not unpack"))
    archive.unlink()
    (fresh / COMPLETE).write_text(json.dumps(manifest), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    fresh.replace(place)
    print(f"vLLM {manifest.get('vllm', '')} for {' '.join(manifest['arch_list'])}, torch {manifest.get('torch', '')}", flush=True)


def _manifest(kept: Kept) -> dict[str, Any]:
    answer = _asked(kept, MANIFEST)
    manifest = answer.document()
    wanted = {"archive": str, "sha256": str, "size": int, "arch_list": list}
    wrong = [name for name, kind in wanted.items() if not isinstance(manifest.get(name), kind)]
    if wrong:
        raise causes.Failed(causes.say("build-damaged", key=kept.key, detail=f"{MANIFEST} lacks {', '.join(wrong)}"))
    return manifest


def _asked(kept: Kept, name: str) -> Answer:
    """A small object. A bucket tells one that it lacks from one that may not be read only to who may list it."""
    for pause in pauses(LONGEST_PAUSE):
        answer = aws.get(kept.region, kept.bucket, f"{kept.folder}/{name}")
        if answer.status == 200:
            return answer
        if answer.status in (403, 404) and aws.error_code(answer) not in ("ExpiredToken", "RequestTimeTooSkewed"):
            raise Missing(causes.say("no-build", bucket=kept.bucket, key=kept.key))
        _wait(answer, pause)
    raise AssertionError("pauses never end")


def _archive(kept: Kept, manifest: dict[str, Any], archive: Path) -> None:
    """Download with resume; twice wrong bytes are not the network's doing."""
    name, size = str(manifest["archive"]), int(manifest["size"])
    wrong = 0
    for pause in pauses(LONGEST_PAUSE):
        answer = aws.get(kept.region, kept.bucket, f"{kept.folder}/{name}", "-C", "-", "--fail", "-o", str(archive), seconds=1700)
        got = archive.stat().st_size if archive.exists() else 0
        if got == size:
            if sha256_of(archive) == manifest["sha256"]:
                return
            wrong += 1
            archive.unlink()
        if got > size:
            archive.unlink()
        if wrong >= WRONG_BYTES:
            raise causes.Failed(causes.say("build-damaged", key=kept.key, detail=f"{name} has another SHA-256"))
        if answer.status != 206 and answer.status != 200:
            aws.credentials()
        _wait(answer, pause, f"{got} of {size} bytes")


def _wait(answer: Answer, pause: float, more: str = "") -> None:
    detail = answer.error or f"HTTP {answer.status} {aws.error_code(answer)}".strip()
    reason = causes.say("bucket-unreachable", detail=f"{detail}, {more}" if more else detail)
    causes.note(reason)
    print(f"again in {pause:g} s: {reason}", flush=True)
    sleep(pause)


def sha256_of(file: Path) -> str:
    """Hex."""
    digest = hashlib.sha256()
    with file.open("rb") as data:
        os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while block := data.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
