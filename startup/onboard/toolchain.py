"""What a build needs of the machine: a torch that knows the card, a CUDA compiler of torch's own version, Rust.

Everything that can be known before an hour of compiling is looked at before it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from startup.onboard import causes
from startup.onboard.attempt import attempt
from startup.onboard.jobs import jobs

HOST_PYTHON = Path("/opt/pytorch/bin/python")  # where AWS's deep learning images for PyTorch have theirs
MACHINE = "aarch64"
# NVIDIA's folder for arm64 servers is `sbsa`; its `arm64` folder is for other boards and has no toolkit for this one.
CUDA_REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/sbsa"
KEYRING = "cuda-keyring_1.1-1_all.deb"
RUSTUP = "https://sh.rustup.rs"
CHANNEL = "stable"  # of a release that pins none
TOOLS = ("git", "zstd", "build-essential", "python3-dev")
QUIET = ("-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=2", "-y", "-q")

_TORCH = """
import json, sys, sysconfig
import torch
arch = torch.cuda.get_arch_list() or (torch._C._cuda_getArchFlags() or "").split() if torch.version.cuda else []
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda or "", "arch_list": arch,
                  "python": "%d.%d" % sys.version_info[:2], "site": sysconfig.get_path("purelib")}))
"""


@dataclass(frozen=True)
class Recipe:
    """What is made: vLLM's release and full commit, for one capability, on the image's own torch.

    `torch`, `cuda` and `python` are what the build is named for; an empty one is not compared. `free_gb`: of the disk.
    """

    vllm: str
    commit: str
    capability: str
    torch: str
    cuda: str
    python: str
    free_gb: int

    @property
    def arch(self) -> str:
        """`sm_75`."""
        return f"sm_{self.capability.replace('.', '')}"


@dataclass(frozen=True)
class Torch:
    """The host image's torch; `site` is the folder that it lies in."""

    torch: str
    cuda: str
    arch_list: tuple[str, ...]
    python: str
    site: str

    @property
    def cuda_home(self) -> Path:
        """Where NVIDIA's packages put the toolkit of that version."""
        return Path(f"/usr/local/cuda-{self.cuda}")


def check_host(recipe: Recipe, place: Path) -> Torch:
    """The machine can make it, as far as can be seen. Raises `Failed`."""
    machine = subprocess.run(["uname", "-m"], capture_output=True, encoding="utf-8", check=False).stdout.strip()
    if machine != MACHINE:
        raise causes.Failed(causes.say("build-other-machine", found=machine or "unknown", wanted=MACHINE))
    torch = _torch()
    print(f"torch {torch.torch}, CUDA {torch.cuda or 'none'}, Python {torch.python}, {' '.join(torch.arch_list)}", flush=True)
    if not torch.cuda:
        raise causes.Failed(causes.say("build-torch-cpu", found=torch.torch))
    if recipe.arch not in torch.arch_list:
        raise causes.Failed(causes.say("build-torch-without-arch", found=" ".join(torch.arch_list), wanted=recipe.arch))
    pairs = (
        ("torch", torch.torch.partition("+")[0], recipe.torch),
        ("CUDA", torch.cuda, recipe.cuda),
        ("Python", torch.python, recipe.python),
    )
    for name, found, wanted in pairs:
        if wanted and found != wanted:
            raise causes.Failed(causes.say("build-torch-other", name=name, found=found, wanted=wanted))
    place.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place.parent).free // 10**9
    if free < recipe.free_gb:
        raise causes.Failed(causes.say("build-no-space", free=free, wanted=recipe.free_gb))
    return torch


def known(file: Path) -> Torch:
    """The image's torch as `check_host` found it before, from a file."""
    about = json.loads(file.read_text(encoding="utf-8"))
    return Torch(**{**about, "arch_list": tuple(about["arch_list"])})


def packages(torch: Torch, work: Path) -> None:
    """The CUDA toolkit of torch's version, git and a compiler, from NVIDIA's and the image's own repositories."""
    attempt("build", ["dpkg", "--configure", "-a"], patience=0)  # an installation that was cut off
    keyring = work / KEYRING
    download(f"{CUDA_REPOSITORY}/{KEYRING}", keyring)
    attempt("build", ["dpkg", "--install", str(keyring)], patience=0)
    toolkit = f"cuda-toolkit-{torch.cuda.replace('.', '-')}"
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *QUIET]
    attempt("build", [*apt, "update"], patience=0)
    attempt("build", [*apt, "install", "--no-install-recommends", toolkit, *TOOLS], patience=0)
    check_nvcc(torch)


def check_nvcc(torch: Torch) -> None:
    """Another version than torch's compiles, and fails when it is loaded."""
    nvcc = torch.cuda_home / "bin" / "nvcc"
    if not nvcc.exists():
        raise causes.Failed(causes.say("build-no-nvcc", path=nvcc, detail="not there after the installation"))
    done = subprocess.run([nvcc, "--version"], capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0 or f"release {torch.cuda}," not in done.stdout:
        said = causes.last_words((done.stdout + done.stderr).splitlines())
        raise causes.Failed(causes.say("build-no-nvcc", path=nvcc, detail=said))


def rust(source: Path, work: Path) -> None:
    """Rust at the channel that the release pins, in a folder of the build's own."""
    pinned = source / "rust-toolchain.toml"
    found = re.search(r'^\s*channel\s*=\s*"([^"]+)"', pinned.read_text(encoding="utf-8") if pinned.exists() else "", re.MULTILINE)
    channel = found[1] if found else CHANNEL
    script = work / "rustup.sh"
    download(RUSTUP, script)
    words = ["sh", str(script), "-y", "--no-modify-path", "--profile", "minimal", "--default-toolchain", channel]
    attempt("build", ["env", *rust_folders(work), *words], patience=0)


def rust_folders(work: Path) -> tuple[str, ...]:
    """Where rustup and cargo keep theirs, as `env` takes it."""
    return (f"RUSTUP_HOME={work / 'rustup'}", f"CARGO_HOME={work / 'cargo'}")


def download(url: str, to: Path) -> None:
    """One file, whole or not there."""
    fresh = to.with_name(to.name + ".new")
    words = ["curl", "-sSfL", "--proto", "=https", "--connect-timeout", "10", "--max-time", "300", "-o", str(fresh), url]
    attempt("build", words, patience=0)
    fresh.replace(to)


def jobs_here() -> int:
    """`jobs` of this machine."""
    found: dict[str, int] = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "SwapTotal"):
            found[name] = int(rest.split()[0]) * 1024
    return jobs(found["MemTotal"], found["SwapTotal"], os.cpu_count() or 1)


def told(words: Sequence[str], cause: str) -> dict[str, Any]:
    """The JSON object that a command prints last. Raises `Failed` with `cause` and the command's own words."""
    done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
    lines = done.stdout.splitlines()
    try:
        value = json.loads(lines[-1]) if done.returncode == 0 and lines else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        print(done.stdout + done.stderr, flush=True)
        raise causes.Failed(causes.say(cause, detail=causes.last_words((done.stdout + done.stderr).splitlines())))
    return value


def _torch() -> Torch:
    if not HOST_PYTHON.exists():
        raise causes.Failed(causes.say("build-no-torch", detail=f"no {HOST_PYTHON}"))
    about = told([str(HOST_PYTHON), "-c", _TORCH], "build-no-torch")
    return Torch(
        str(about["torch"]), str(about["cuda"]), tuple(map(str, about["arch_list"])), str(about["python"]), str(about["site"])
    )
