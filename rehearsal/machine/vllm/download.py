"""The stand-in's download of a model from the Hub, into the Hub's own cache folders: names, revisions and tokens as they are."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

HUB = "https://huggingface.co"


def fetch(model: str, revision: str | None, log: Callable[..., None]) -> None:
    """Fetch what is not there. A folder of this machine is left as it is. Exits 1 with the Hub client's kind of words."""
    if Path(model).is_dir():
        return
    try:
        about = json.loads(_get(f"{HUB}/api/models/{model}/revision/{revision or 'main'}"))
        home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
        folder = home / "hub" / f"models--{model.replace('/', '--')}" / "snapshots" / about["sha"]
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        for file in about["siblings"]:
            place = folder / file["rfilename"]
            if not place.exists():
                fresh = place.with_name(f".{place.name}.incomplete")
                fresh.write_bytes(_get(f"{HUB}/{model}/resolve/{about['sha']}/{file['rfilename']}"))
                fresh.replace(place)
    except urllib.error.HTTPError as error:
        said = error.headers.get("X-Error-Message") or error.reason
        log("core.py:700", "EngineCore failed to start.", "ERROR")
        print(f"huggingface_hub.errors.HfHubHTTPError: {error.code} Client Error: {said} ({model})", file=sys.stderr, flush=True)
        sys.exit(1)
    except OSError as error:
        log("core.py:700", "EngineCore failed to start.", "ERROR")
        print(f"OSError: We couldn't connect to '{HUB}' to load the files: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    log("weight_utils.py:480", f"Time spent downloading weights for {model}: {time.monotonic() - began:.6f} seconds")


def _get(url: str) -> bytes:
    request = urllib.request.Request(url)
    if token := os.environ.get("HF_TOKEN", ""):
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # not handed on to the download network
    with urllib.request.urlopen(request, timeout=600) as reply:
        data: bytes = reply.read()
        return data
