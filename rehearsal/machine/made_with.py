"""Runs in the machine, as `NAME ITSELF WORDS…`: git, apt-get, dpkg, uname, the image's Python, a build's own, nvcc, cuobjdump.

Standard library alone. What goes wrong is asked of the metadata service's stand-in, as by the other stand-ins.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import urllib.request
from pathlib import Path

TORCH = {"torch": "2.12.0+cu132", "cuda": "13.2", "arch_list": ["sm_75", "sm_80", "sm_90"], "python": "3.12"}
SITE = "/opt/pytorch/lib/python3.12/site-packages"
MADE_OF = Path("/usr/local/share/rehearsal/build/venv")
VERSION = "0.27.2rc0"
ASK = "http://169.254.169.254/rehearsal/"


def main(name: str, itself: str, words: list[str]) -> int:
    """The command's exit status."""
    doer = {"python": python, "git": git, "apt-get": apt_get, "dpkg": dpkg, "uname": uname, "nvcc": nvcc, "cuobjdump": cuobjdump}[
        name
    ]
    return doer(itself, words)


def asked(what: str) -> str:
    """What the rehearsal says; empty when it says nothing."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(ASK + what, timeout=300) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def real(path: str, words: list[str]) -> int:
    """The machine's own."""
    os.execv(path, [path, *words])


def uname(_: str, words: list[str]) -> int:
    """Of the machine that the cloud would give."""
    if words == ["-m"]:
        print("aarch64")
        return 0
    return real("/usr/bin/uname", words)


def dpkg(_: str, words: list[str]) -> int:
    """The keyring is no package."""
    return 0 if words[:1] == ["--install"] else real("/usr/bin/dpkg", words)


def apt_get(_: str, words: list[str]) -> int:
    """The toolkit comes as two commands; no index is asked."""
    toolkit = next((word for word in words if word.startswith("cuda-toolkit-")), "")
    if toolkit:
        folder = Path(f"/usr/local/cuda-{toolkit.removeprefix('cuda-toolkit-').replace('-', '.')}/bin")
        for name in ("nvcc", "cuobjdump"):
            put(folder / name, Path("/opt/pytorch/bin/python").read_text().replace(" python ", f" {name} "))
    return 0


def nvcc(itself: str, _: list[str]) -> int:
    """Its version is its folder's."""
    version = Path(itself).parts[-3].removeprefix("cuda-")
    print(f"Cuda compilation tools, release {version}, V{version}.78 (stand-in)")
    return 0


def cuobjdump(_: str, words: list[str]) -> int:
    """The card that was asked for when the file was made."""
    print(f"ELF file    1: {Path(words[-1]).stem}.1.{Path(words[-1]).read_text() or 'sm_75'}.cubin")
    return 0


def git(_: str, words: list[str]) -> int:
    """A repository of two files; the commit is the one that was fetched, or another."""
    folder, verb = (Path(words[1]), words[2]) if words[0] == "-C" else (Path(words[-1]), words[0])
    if verb == "fetch":
        (folder / "fetched").write_text(words[-1])
    if verb == "checkout":
        for name in ("tools/use_existing_torch.py", "requirements/build/cuda.txt"):
            put(folder / name, "", 0o644)
        (folder / "rust-toolchain.toml").write_text('[toolchain]\nchannel = "1.95"\n')
    if verb == "rev-parse":
        print("f" * 40 if asked("fault/source") == "other-commit" else (folder / "fetched").read_text())
    return 0


def python(itself: str, words: list[str]) -> int:
    """The image's Python, and a build's own."""
    if words[0] == "-c":
        return loads(itself) if "vllm" in words[1] else torch()
    if words[:2] == ["-m", "venv"]:
        place = Path(words[-1])
        put(place / "bin" / "python", Path(itself).read_text())
        (place / "lib/python3.12/site-packages").mkdir(parents=True)
    if words[:3] == ["-m", "pip", "wheel"]:
        return wheel(words)
    if words[:3] == ["-m", "pip", "install"] and words[-1].endswith(".whl"):
        return install(Path(itself).parents[1], Path(words[-1]))
    return 0


def torch() -> int:
    """What the image's torch says of itself."""
    wrong = {"arch_list": ["sm_80", "sm_90"]} if asked("fault/torch") == "no-sm75" else {}
    print(json.dumps({**TORCH, "site": SITE, **wrong}))
    return 0


def wheel(words: list[str]) -> int:
    """The hour, shortened; the wheel holds the name of the card that it was made for."""
    print("[1/345] Building CUDA object csrc/attention.cu.o (stand-in: nothing is compiled)", flush=True)
    asked("hold/wheel")
    if asked("fault/compiler") == "error":
        print('csrc/attention.cu(12): error: identifier "x" is undefined', flush=True)
        print("ninja: build stopped: subcommand failed.", flush=True)
        return 1
    arch = os.environ["TORCH_CUDA_ARCH_LIST"].replace(".", "")
    put(Path(words[words.index("-w") + 1]) / f"vllm-{VERSION}-cp312-cp312-linux_aarch64.whl", f"sm_{arch}", 0o644)
    return 0


def install(venv: Path, made: Path) -> int:
    """The stand-in server into the environment."""
    shutil.copytree(MADE_OF, venv, dirs_exist_ok=True)
    put(venv / "lib/python3.12/site-packages/vllm/_C.abi3.so", made.read_text(), 0o644)
    return 0


def loads(itself: str) -> int:
    """As vLLM would say it: a line of its own, then what was asked."""
    compiled = [str(Path(itself).parents[1] / "lib/python3.12/site-packages/vllm/_C.abi3.so")]
    print("INFO: stand-in\n" + json.dumps({"torch": TORCH["torch"], "vllm": VERSION, "compiled": compiled}))
    return 0


def put(file: Path, text: str, mode: int = 0o755) -> None:
    """A file and its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
