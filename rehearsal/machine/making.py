"""Stand-ins for what a build of vLLM is made with, laid over a machine of EC2: nothing is compiled, and nothing arm64 is run.

The commands are one script of the machine's own Python (`made_with.py`) under several names; what they "compile" is the stand-in
server of `builds`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rehearsal.machine import builds
from rehearsal.machine.fakes.web import Reply, Request

SCRIPT = "usr/local/lib/rehearsal/made_with.py"
MADE_OF = "usr/local/share/rehearsal/build"
NAMES = ("uname", "git", "apt-get", "dpkg")
PYTHON = "opt/pytorch/bin/python"
NVIDIA, RUSTUP = "developer.download.nvidia.com", "sh.rustup.rs"
HOSTS = (NVIDIA, RUSTUP)


def write(put: Callable[..., None]) -> None:
    """The script, its names, and what it takes for compiled."""
    put(SCRIPT, (Path(__file__).parent / "made_with.py").read_bytes())
    for name in NAMES:
        put(f"usr/local/bin/{name}", command(name), 0o755)
    put(PYTHON, command("python"), 0o755)
    for name, data in builds.files().items():
        put(f"{MADE_OF}/{name}", data, builds.mode(name))


def command(name: str) -> str:
    """A command that is the script under that name, and says where it lies itself."""
    return f'#!/bin/sh\n# stand-in\nexec /usr/bin/python3 -S -E /{SCRIPT} {name} "$0" "$@"\n'


def answer(request: Request) -> Reply:
    """NVIDIA's repository and rustup's server, as far as they are asked for files: the rest comes by apt-get and by the script."""
    if request.host == NVIDIA and request.path.endswith("/sbsa/cuda-keyring_1.1-1_all.deb"):
        return Reply(200, b"stand-in: a keyring")
    if request.host == RUSTUP and request.path == "/":
        return Reply(200, b"echo 'stand-in: no Rust was installed'\n", {"Content-Type": "text/plain"})
    return Reply(404)
