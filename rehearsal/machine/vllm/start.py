"""The stand-in's start: what vLLM checks and says on its way to serving, and the time held for it."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import socket
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rehearsal.machine.vllm import card, download

CUDA = os.environ.get("STAND_IN_DEVICE") == "cuda"
CARD = shutil.which("nvidia-smi") is not None  # a machine with a card, where no container says so
CRASHES = {
    False: "RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy: the TPU is in use",
    True: "ValueError: Unsupported GPU type or quantization: no kernel of this build can run the checkpoint's layers",
}
BUSY = "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.32 GiB. GPU 0 has a total capacity of 14.56 GiB of which "
    "812.81 MiB is free. Including non-PyTorch memory, this process has 13.76 GiB memory in use."
)
REHEARSAL = os.environ.get("STAND_IN_REHEARSAL", "http://169.254.169.254/rehearsal")


def log(where: str, text: str, level: str = "INFO") -> None:
    """One line as vLLM's logger prints it."""
    print(f"{level} {dt.datetime.now():%m-%d %H:%M:%S} [{where}] {text}", flush=True)


def ask(what: str) -> Mapping[str, Any]:
    """What the rehearsal wants (`behaviour`, `hold/NAME`: returns when held). Empty where there is no rehearsal."""
    try:
        with urllib.request.urlopen(f"{REHEARSAL}/{what}", timeout=3600) as reply:
            document: Mapping[str, Any] = json.load(reply)
            return document
    except (OSError, ValueError):
        return {}


def fault() -> str:
    """The fault armed for vLLM now; empty for none."""
    return str(ask("behaviour").get("faults", {}).get("vllm", ""))


def bind(args: argparse.Namespace) -> socket.socket:
    """The server's socket, bound before the model loads, as vLLM does. Exits 1 when the port is taken."""
    channel = socket.socket(socket.AF_INET)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        channel.bind((args.host or "0.0.0.0", args.port or 8000))
    except OSError as error:
        fail(f"OSError: [Errno {error.errno}] {error.strerror}")
    return channel


def load(args: argparse.Namespace) -> None:
    """Load and compile: the model must be there and whole. Exits 1 with vLLM's kind of words when it is not."""
    log("model_runner.py:512", f"Starting to load model {args.model}...")
    began = time.monotonic()
    runner = "gpu_model_runner.py:3021" if CUDA else "tpu_runner.py:980"
    if fault() == "crash-loop":
        fail(BUSY if CARD and not CUDA else CRASHES[CUDA])
    if CUDA:
        download.fetch(args.model, args.revision, log)
    size = _check_model(args.model)
    ask("hold/load")
    while fault() == "never-ready":
        time.sleep(0.2)
    log("default_loader.py:267", f"Loading weights took {time.monotonic() - began:.2f} seconds")
    if fault() == "out-of-memory":
        fail(OUT_OF_MEMORY)
    log("model_runner.py:548", f"Model loading took {size / 2**30:.4f} GiB and {time.monotonic() - began:.6f} seconds")
    began = time.monotonic()
    log(runner, "Compiling the model with different input shapes.")
    if CUDA and card.too_large():
        fail(card.OUT_OF_SHARED_MEMORY)
    ask("hold/compile")
    log(runner, f"Compilation finished in {time.monotonic() - began:.2f} [secs].")
    log("kv_cache_utils.py:864", "KV cache size: 1,048,576 tokens")
    log("core.py:214", f"init engine (profile, create kv cache, warmup model) took {time.monotonic() - began:.2f} seconds")


def fail(text: str) -> None:
    """End as a vLLM that could not start: a traceback's last line, exit 1."""
    log("core.py:700", "EngineCore failed to start.", "ERROR")
    print(f"Traceback (most recent call last):\n  (stand-in)\n{text}", file=sys.stderr, flush=True)
    sys.exit(1)


def _check_model(model: str) -> int:
    """Bytes of the weights. A folder must hold a config and whole safetensors files; a name must be reachable or cached."""
    folder = Path(model)
    if not folder.is_dir():
        folder = _cached(model)
    if not (folder / "config.json").is_file():
        fail(f"ValueError: Invalid repository ID or local directory specified: '{model}'. No config.json was found.")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        fail(f"RuntimeError: Cannot find any model weights with `{model}`")
    for file in weights:
        with file.open("rb") as data:
            length = int.from_bytes(data.read(8), "little")
            try:
                header = json.loads(data.read(length))
                end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
            except (ValueError, KeyError, MemoryError, OverflowError):
                end = -1
        if file.stat().st_size != 8 + length + end:
            fail("safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered")
    return sum(file.stat().st_size for file in weights)


def _cached(model: str) -> Path:
    """The newest snapshot in the Hub's cache folder. Exits 1 without one: the stand-in downloads nothing itself."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")) / f"models--{model.replace('/', '--')}" / "snapshots"
    snapshots = sorted(cache.glob("*")) if cache.is_dir() else []
    if not snapshots:
        fail(f"OSError: We couldn't connect to the Hub to load the files, and couldn't find them in the cached files ({model}).")
    return snapshots[-1]
