"""Keeping what was made: the environment as one archive with its manifest, put into the bucket, the manifest last.

The archive is named by its hash: two machines that make the same build at a time leave each its own, and one whole manifest.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from startup.onboard import aws, causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.build import MANIFEST, Kept, sha256_of

FOLDER = "keep"
MOST = 5 * 10**9  # bytes that S3 takes in one request
TRIES = 5
LOG_TAIL = 20_000  # characters


def pack(place: Path, folder: Path, about: Mapping[str, object]) -> dict[str, object]:
    """`PLACE/venv` as one archive in `folder`, and the manifest; as zstd, or gzip where there is none. Raises `Failed`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kind, by = ("zst", "zstd -T0 -6") if shutil.which("zstd") else ("gz", "gzip")
    fresh = folder / f"venv.tar.{kind}"
    words = ["tar", "-C", str(place), "--use-compress-program", by, "-cf", str(fresh), "venv"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        said = done.stderr.splitlines()
        found = causes.find(said, "build")
        raise causes.Failed(found[1] if found else causes.say("build-not-packed", detail=causes.last_words(said)))
    sha256 = sha256_of(fresh)
    archive = fresh.replace(folder / f"venv-{sha256[:12]}.tar.{kind}")
    manifest = {"archive": archive.name, "size": archive.stat().st_size, "sha256": sha256, **about}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(f"{archive.name}: {manifest['size']} bytes", flush=True)
    return manifest


def upload(kept: Kept, folder: Path) -> bool:
    """Put both into the bucket. False when it could not be: that is said, the server starts all the same, the files stay."""
    why = _both(kept, folder)
    if why:
        causes.warn(causes.say("build-not-kept", bucket=kept.bucket, key=kept.key, detail=why, folder=folder))
    return not why


def deliver(kept: Kept, folder: Path) -> None:
    """Put both into the bucket: what a builder is there for. Raises `Failed`."""
    why = _both(kept, folder)
    if why:
        raise causes.Failed(causes.say("bucket-not-writable", bucket=kept.bucket, key=kept.key, detail=why))


def probe(kept: Kept, file: Path) -> None:
    """Whether the bucket takes something in the build's place, asked before anything long. Raises `Failed`.

    A role's rights may be known late: a refusal counts when it is still one after half a minute.
    """
    file.write_text("whether this machine may write here\n", encoding="ascii")
    why = ""
    for _, pause in zip(range(TRIES), (2, 4, 8, 16, 0), strict=True):
        why = _put(kept, file, tries=1)
        if not why:
            gone = aws.delete(kept.region, kept.bucket, f"{kept.folder}/{file.name}")
            return print(
                f"s3://{kept.bucket}/{kept.folder}/ takes a build (HTTP {gone.status} for taking the probe away)", flush=True
            )
        if pause:
            causes.note(causes.say("bucket-not-writable", bucket=kept.bucket, key=kept.key, detail=why))
            sleep(pause)
    raise causes.Failed(causes.say("bucket-not-writable", bucket=kept.bucket, key=kept.key, detail=why))


def report(region: str, bucket: str, key: str) -> bool:
    """The boot's documents and the end of its log as one object, for who looks when the machine is gone. False: not taken."""
    names = [path for path in places.STATE.iterdir() if path.name == "state" or path.name.startswith("phase-")]
    documents = {path.name: path.read_text(encoding="utf-8") for path in names}
    log = places.STATE / "boot.log"
    tail = log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:] if log.exists() else ""
    folder, _, name = key.rpartition("/")
    file = places.RUN / name
    file.write_text(json.dumps({"documents": documents, "log": tail}), encoding="utf-8")
    why = _put(Kept(region, bucket, folder, ""), file)
    if why:
        print(f"the report was not taken: {why}", flush=True)
    return not why


def _both(kept: Kept, folder: Path) -> str:
    """Archive and manifest; why they were not taken, empty when they were."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest["size"] > MOST:
        return f"{manifest['size']} bytes, S3 takes at most {MOST} in one request"
    for name in (manifest["archive"], MANIFEST):
        if why := _put(kept, folder / name):
            return why
    print(f"kept in s3://{kept.bucket}/{kept.folder}/", flush=True)
    return ""


def _put(kept: Kept, file: Path, tries: int = TRIES) -> str:
    """Why it was not taken; empty when it was."""
    reason = ""
    for turn, pause in zip(range(tries), pauses(15.0), strict=False):
        reason = aws.credentials()
        if not reason:
            answer = aws.put(kept.region, kept.bucket, f"{kept.folder}/{file.name}", file)
            if answer.status == 200:
                return ""
            code = aws.error_code(answer)
            reason = answer.error or f"HTTP {answer.status} {code}".strip()
            if answer.status in (400, 403, 404) and code not in ("ExpiredToken", "RequestTimeTooSkewed", "RequestTimeout"):
                return reason
        if turn < tries - 1:
            print(f"again in {pause:g} s: {file.name}: {reason}", flush=True)
            sleep(pause)
    return f"{reason}, {tries} times" if tries > 1 else reason
