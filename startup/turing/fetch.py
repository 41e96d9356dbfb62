"""What `prove` needs and the machine does not have: a few files of each vLLM release, and an environment with Triton.

Both come through pip, checked against pinned digests, and are kept in the cache, one folder a key, whole or absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from verdict.errors import CannotTell
from verdict.places import cache_root

HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements-prove.lock"
KEPT = tuple(f"vllm/v1/attention/ops/triton_{name}.py" for name in ("unified_attention", "attention_helpers"))
# The wheels are for Linux; only Python files are read, so any host may ask for them.
_PLATFORMS = ("2_28_x86_64", "2_31_x86_64", "2_35_x86_64", "2_17_x86_64")
_LIMIT_S = 540


@dataclass(frozen=True)
class Release:
    """A published vLLM. Without a digest it is taken as the index serves it (`--newest` only)."""

    distribution: str
    version: str
    sha256: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def pinned() -> tuple[Release, ...]:
    """The releases of `releases.toml`."""
    rows = tomllib.loads((HERE / "releases.toml").read_text(encoding="utf-8"))["release"]
    return tuple(Release(**row) for row in rows)


def newest() -> Release:
    """The newest `vllm` that the package index has; the pinned row when there is one. Raises `CannotTell` without an index."""
    answer = _pip(["index", "versions", "vllm"], "asking for the newest vLLM")
    found = re.search(r"^vllm \(([^)\s]+)\)", answer, re.MULTILINE)
    if not found:
        raise CannotTell("the package index did not name vLLM's newest release", why=answer.strip()[:200])
    return next((r for r in pinned() if (r.distribution, r.version) == ("vllm", found[1])), Release("vllm", found[1]))


def cache() -> Path:
    """Below the cache: where `make setup` keeps its things too."""
    return cache_root() / "turing"


def sources(release: Release) -> Path:
    """A folder like site-packages with the files that `prove` reads. About 120 to 340 MB are fetched the first time."""
    folder = cache() / f"{release.distribution}-{release.version}-{release.sha256[:12] or 'unpinned'}"
    if not folder.is_dir():
        with _building(folder) as temporary, tempfile.TemporaryDirectory(dir=cache(), prefix=".wheel-") as wheels:
            wanted = f"{release.distribution}=={release.version}"
            hashes = f"{wanted} --hash=sha256:{release.sha256}\n" if release.sha256 else f"{wanted}\n"
            listed = Path(wheels) / "wanted.txt"
            listed.write_text(hashes, encoding="utf-8")
            platforms = [word for name in _PLATFORMS for word in ("--platform", f"manylinux_{name}")]
            argv = ["download", "--no-deps", "--only-binary=:all:", *platforms, "--dest", wheels, "-r", str(listed)]
            _pip(argv, f"fetching {release}")
            with zipfile.ZipFile(next(Path(wheels).glob("*.whl"))) as wheel:
                for name in KEPT:
                    wheel.extract(name, temporary)
    return folder


def triton_python() -> Path:
    """A Python with Triton and nothing else, made from the lock. About 190 MB are fetched the first time."""
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache() / f"triton-{key}"
    if not folder.is_dir():
        with _building(folder) as temporary:
            _run([sys.executable, "-m", "venv", "--without-pip", str(temporary)], "making Triton's environment")
            target = next(temporary.glob("lib/python*/site-packages"))
            argv = ["install", "--no-deps", "--only-binary=:all:", "--require-hashes", "--target", str(target), "-r", str(LOCK)]
            _pip(argv, "installing Triton")
    return folder / "bin" / "python"


@contextlib.contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` when all went well. Another process may have been faster: its folder stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield temporary
        with contextlib.suppress(OSError):
            temporary.rename(folder)
        if not folder.is_dir():
            raise CannotTell(f"{folder} could not be made")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pip(words: Sequence[str], doing: str) -> str:
    quiet = ["--disable-pip-version-check", "--no-input", "--no-cache-dir"]
    return _run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]], doing)


def _run(argv: Sequence[str], doing: str) -> str:
    print(f"{doing} ...", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise CannotTell(f"{doing} took more than {_LIMIT_S} s") from None
    if done.returncode != 0:
        last = " ".join((done.stderr or done.stdout).split()[-40:])
        raise CannotTell(f"{doing} failed", why=last, way_out="see that pip reaches a package index, and run it again")
    return done.stdout
