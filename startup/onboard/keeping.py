"""Keeping what was made: the environment as one archive with its manifest, put into the bucket, the manifest last.

The archive is named by its hash: two machines that make the same build at a time leave each its own, and one whole manifest.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from startup.onboard import aws, causes
from startup.onboard.attempt import pauses, sleep
from startup.onboard.build import MANIFEST, Kept, sha256_of

FOLDER = "keep"
MOST = 5 * 10**9  # bytes that S3 takes in one request
TRIES = 5


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
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    why = ""
    if manifest["size"] > MOST:
        why = f"{manifest['size']} bytes, S3 takes at most {MOST} in one request"
    for name in () if why else (manifest["archive"], MANIFEST):
        why = _put(kept, folder / name)
        if why:
            break
    if why:
        causes.warn(causes.say("build-not-kept", bucket=kept.bucket, key=kept.key, detail=why, folder=folder))
        return False
    print(f"kept in s3://{kept.bucket}/{kept.folder}/", flush=True)
    return True


def _put(kept: Kept, file: Path) -> str:
    """Why it was not taken; empty when it was."""
    reason = ""
    for _, pause in zip(range(TRIES), pauses(15.0), strict=False):
        reason = aws.credentials()
        if not reason:
            answer = aws.put(kept.region, kept.bucket, f"{kept.folder}/{file.name}", file)
            if answer.status == 200:
                return ""
            code = aws.error_code(answer)
            reason = answer.error or f"HTTP {answer.status} {code}".strip()
            if answer.status in (400, 403, 404) and code not in ("ExpiredToken", "RequestTimeTooSkewed", "RequestTimeout"):
                return reason
        print(f"again in {pause:g} s: {file.name}: {reason}", flush=True)
        sleep(pause)
    return f"{reason}, {TRIES} times"
