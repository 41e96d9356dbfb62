"""Making the build on this machine: vLLM compiled for its card, in `PLACE/venv`, where every machine will have it.

A row of steps. A step that is done leaves a mark in `PLACE.making`, and is not done again; one that was cut off is, from its
beginning, except that compiling goes on where it was (ninja trusts only what it has recorded as done). After a loss of power
what was compiled is not trusted: it may not have reached the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from startup.onboard import build, causes, keeping, places, toolchain
from startup.onboard.attempt import attempt
from startup.onboard.build import COMPLETE, Kept
from startup.onboard.toolchain import Recipe, Torch

REPOSITORY = "https://github.com/vllm-project/vllm.git"
EXISTING_TORCH = ("tools/use_existing_torch.py", "use_existing_torch.py")  # it moved between releases
TORCH = "torch.json"  # what `checks` found, for the phases after it
IN_BUCKET = "in-bucket"  # the mark of a folder that is only left to be removed
BUILD_NEEDS = ("requirements/build/cuda.txt", "requirements/build.txt")  # so did they

_LOADS = """
import importlib, json, pathlib
import torch, vllm
folder = pathlib.Path(vllm.__file__).parent
compiled = sorted(folder.glob("*.so"))
assert compiled, "Error: vLLM was installed without compiled code"
for file in compiled:
    importlib.import_module("vllm." + file.name.partition(".")[0])
print(json.dumps({"torch": torch.__version__, "vllm": vllm.__version__, "compiled": [str(file) for file in compiled]}))
"""


@dataclass(frozen=True)
class Making:
    """One build in the making."""

    recipe: Recipe
    torch: Torch
    place: Path

    @property
    def work(self) -> Path:
        """Marks, source and tools; gone when the build is kept."""
        return work_of(self.place)

    @property
    def source(self) -> Path:
        """The source of vLLM."""
        return self.work / "vllm"

    @property
    def python(self) -> Path:
        """The build's own Python."""
        return self.place / "venv" / "bin" / "python"


def main(kept: Kept, place: Path, recipe: Sequence[str], *, take: bool) -> None:
    """The build of the bucket; where there is none, or `take` is false, one that is made here."""
    vllm, commit, torch, cuda, python, free_gb = recipe
    if take and not (place / COMPLETE).exists():
        try:
            build.take(kept, place)
            return shutil.rmtree(work_of(place), ignore_errors=True)
        except build.Missing:
            print(f"bucket {kept.bucket} holds no {kept.key}: it is made here", flush=True)
    return make(kept, Recipe(vllm, commit, kept.capability, torch, cuda, python, int(free_gb)), place)


def make(kept: Kept, recipe: Recipe, place: Path) -> None:
    """Make `place` the build and put it into the bucket. Raises `Failed`; a bucket that does not take it is only said."""
    began = time.monotonic()
    work = work_of(place)
    if not (place / COMPLETE).exists():
        making = Making(recipe, toolchain.check_host(recipe, place), place)
        work.mkdir(exist_ok=True)
        for name, do in steps().items():
            _once(making, name, do)
        _pack(making, f"flexserve on {toolchain.MACHINE}; the last run of the phase took {_minutes(began)} minutes")
    if work.exists() and not (work / IN_BUCKET).exists() and keeping.upload(kept, work / keeping.FOLDER):
        (work / IN_BUCKET).touch()
    if (work / IN_BUCKET).exists():
        shutil.rmtree(work, ignore_errors=True)


def steps() -> dict[str, Callable[[Making], None]]:
    """What is done once each, by name, in order."""
    return {
        "toolkit": lambda m: toolchain.packages(m.torch, m.work),
        "source": source,
        "rust": lambda m: toolchain.rust(m.source, m.work),
        "venv": venv,
        "wheel": wheel,
        "install": install,
    }


def phase(name: str, kept: Kept, place: Path, words: Sequence[str]) -> None:
    """One step as a phase of a builder's boot: `checks` first, `keep` last. Raises `Failed`."""
    vllm, commit, torch, cuda, python, free_gb = words
    recipe, work = Recipe(vllm, commit, kept.capability, torch, cuda, python, int(free_gb)), work_of(place)
    if name == "checks":
        found = toolchain.check_host(recipe, place)
        keeping.probe(kept, places.RUN / "probe")
        work.mkdir(exist_ok=True)
        (work / TORCH).write_text(json.dumps(asdict(found)), encoding="utf-8")
        return
    making = Making(recipe, toolchain.known(work / TORCH), place)
    if name != "keep":
        return _once(making, name, steps()[name])
    if not (place / COMPLETE).exists():
        _pack(making, f"flexserve's builder, {toolchain.MACHINE}; it compiled with {jobs_of(making)} at a time")
    keeping.deliver(kept, work / keeping.FOLDER)
    shutil.rmtree(work, ignore_errors=True)


def jobs_of(making: Making) -> int:
    """Compilers at a time: what memory allows, or what was learnt to be too many."""
    kept = making.work / "jobs"
    return int(kept.read_text(encoding="ascii")) if kept.exists() else toolchain.jobs_here()


def _pack(making: Making, made_by: str) -> None:
    about = check(making)
    manifest = keeping.pack(making.place, making.work / keeping.FOLDER, {**about, "made_by": made_by})
    (making.place / COMPLETE).write_text(json.dumps(manifest), encoding="utf-8")


def _minutes(began: float) -> str:
    return f"{(time.monotonic() - began) / 60:.0f}"


def work_of(place: Path) -> Path:
    """The folder beside a build in which it is made."""
    return place.with_name(f"{place.name}.making")


def source(making: Making) -> None:
    """Exactly the commit, with the release's lines about torch taken out."""
    recipe, folder = making.recipe, making.source
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    git = ["git", "-C", str(folder)]
    attempt("build", ["git", "init", "--quiet", str(folder)], patience=0)
    attempt("build", [*git, "fetch", "--depth", "1", REPOSITORY, recipe.commit], patience=0)
    attempt("build", [*git, "checkout", "--quiet", "--force", "FETCH_HEAD"], patience=0)
    found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, encoding="utf-8", check=False).stdout.strip()
    if found != recipe.commit:
        raise causes.Failed(causes.say("build-commit", found=found or "none", wanted=recipe.commit))
    script = _first(folder, EXISTING_TORCH)
    attempt("build", ["env", "-C", str(folder), str(toolchain.HOST_PYTHON), script], patience=0)


def venv(making: Making) -> None:
    """A virtual environment that sees the image's torch, with what building needs."""
    folder = making.place / "venv"
    shutil.rmtree(folder, ignore_errors=True)
    making.place.mkdir(exist_ok=True)
    create = [str(toolchain.HOST_PYTHON), "-m", "venv", "--system-site-packages", "--without-pip", str(folder)]
    attempt("build", create, patience=0)
    # Where the image's Python is in a virtual environment itself, the system's packages are not those that it sees.
    here = folder / "lib" / f"python{making.torch.python}" / "site-packages"
    (here / "flexserve-host.pth").write_text(making.torch.site + "\n", encoding="utf-8")
    (making.work / "constraints").write_text(f"torch=={making.torch.torch}\n", encoding="utf-8")
    needs = str(making.source / _first(making.source, BUILD_NEEDS))
    _pip(making, "install", "-r", needs, "setuptools-rust", "ninja")


def wheel(making: Making) -> None:
    """The hour. Where the memory does not do for the compilers at a time, half as many go on with what there is."""
    boot = making.work / "wheel.boot"
    this = places.BOOT_ID.read_text(encoding="ascii")
    if not boot.exists() or boot.read_text(encoding="ascii") != this:
        for name in ("build", ".deps"):
            shutil.rmtree(making.source / name, ignore_errors=True)
        boot.write_text(this, encoding="ascii")
    kept, jobs = making.work / "jobs", jobs_of(making)
    while True:
        print(f"vLLM {making.recipe.vllm} at {making.recipe.commit}, {jobs} compilers at a time", flush=True)
        try:
            _wheel(making, jobs)
        except causes.Failed as failed:
            if not failed.text.startswith("build-memory:") or jobs == 1:
                raise
            jobs = max(1, jobs // 2)
            kept.write_text(str(jobs), encoding="ascii")
            print(f"{failed.text}; again with {jobs}", flush=True)
        else:
            return


def _wheel(making: Making, jobs: int) -> None:
    dist = making.work / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    cuda = making.torch.cuda_home
    settings = (
        *toolchain.rust_folders(making.work),
        f"CUDA_HOME={cuda}",
        f"PATH={making.python.parent}:{making.work / 'cargo' / 'bin'}:{cuda / 'bin'}:{os.environ['PATH']}",
        "VLLM_TARGET_DEVICE=cuda",
        f"TORCH_CUDA_ARCH_LIST={making.recipe.capability}",
        f"MAX_JOBS={jobs}",
        "NVCC_THREADS=1",
        f"SETUPTOOLS_SCM_PRETEND_VERSION={making.recipe.vllm}",  # one commit was fetched, and no tag
    )
    words = ("--no-build-isolation", "--no-deps", "-w", str(dist), str(making.source))
    _pip(making, "wheel", "-v", *words, settings=settings, tries=1)


def install(making: Making) -> None:
    """The wheel and what it needs to run; torch stays the image's."""
    (made,) = (making.work / "dist").glob("*.whl")
    _pip(making, "install", str(made))


def check(making: Making) -> dict[str, object]:
    """It loads, in a process of its own, with the image's torch, and its compiled code is for the card. The manifest's facts."""
    about = toolchain.told([str(making.python), "-c", _LOADS], "build-does-not-load")
    torch = making.torch
    if about["torch"] != torch.torch:
        raise causes.Failed(causes.say("build-torch-other", name="torch", found=about["torch"], wanted=torch.torch))
    found: set[str] = set()
    for file in about["compiled"]:
        words = [str(torch.cuda_home / "bin" / "cuobjdump"), "--list-elf", str(file)]
        listed = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False).stdout
        found.update(re.findall(r"\bsm_\d+[a-z]?\b", listed))
    if making.recipe.arch not in found:
        names = " ".join(sorted(found)) or "no code for any card"
        raise causes.Failed(causes.say("build-without-arch", found=names, wanted=making.recipe.capability))
    return {
        "vllm": about["vllm"],
        "commit": making.recipe.commit,
        "torch": torch.torch,
        "cuda": torch.cuda,
        "python": torch.python,
        "arch_list": sorted(found),
        "patch": "none: each boot applies it",
    }


def _once(making: Making, name: str, do: Callable[[Making], None]) -> None:
    mark = making.work / f"done.{name}"
    if mark.exists():
        return
    began = time.monotonic()
    print(f"build: {name}", flush=True)
    do(making)
    subprocess.run(["sync", "-f", making.work], check=False)  # a mark must not outlive what it speaks of
    mark.touch()
    print(f"build: {name} done in {time.monotonic() - began:.0f} s", flush=True)


def _pip(making: Making, *words: str, settings: tuple[str, ...] = (), tries: int = 3) -> None:
    """`PIP_CONSTRAINT` keeps any requirement from bringing another torch, which would know another set of cards."""
    common = (f"PIP_CONSTRAINT={making.work / 'constraints'}", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_ROOT_USER_ACTION=ignore")
    argv = ["env", *common, *settings, str(making.python), "-m", "pip", *words]
    attempt("build", argv, patience=0, unknown=tries)


def _first(folder: Path, names: tuple[str, ...]) -> str:
    for name in names:
        if (folder / name).exists():
            return name
    raise causes.Failed(causes.say("build-unknown-release", detail=" or ".join(names)))
