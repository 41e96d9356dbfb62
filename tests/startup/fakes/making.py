"""What a build is made with, as stand-ins: NVIDIA's repository, rustup, git, the toolkit, the image's Python with pip."""

import json
from pathlib import Path

TORCH = {"torch": "2.12.0+cu132", "cuda": "13.2", "arch_list": ["sm_75", "sm_80"], "python": "3.12"}
SITE = "/opt/pytorch/lib/python3.12/site-packages"


def client(world, place):
    """A stand-in command at a place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text((world.folder / "bin" / "git").read_text())
    place.chmod(0o755)


def repository(h, url, world):
    """The one file that is taken by hand."""
    return h.send(200, b"a keyring") if url.path.endswith("/ubuntu2404/sbsa/cuda-keyring_1.1-1_all.deb") else h.send(404)


def installer(h, world):
    """Rustup's script, as its server has it."""
    return h.send(200, f'exec "{world.folder}/bin/rustup" "$@"\n'.encode())


def rustup(world, words, said):
    return 0


def toolkit(world, name, said):
    """`apt-get install cuda-toolkit-13-2 …`."""
    world.hold("toolkit")
    if world.fault("apt") == "no-toolkit":
        return 0
    version = name.removeprefix("cuda-toolkit-").replace("-", ".")
    for command in ("nvcc", "cuobjdump"):
        client(world, Path(f"/usr/local/cuda-{version}/bin/{command}"))
    return 0


def nvcc(world, words, said):
    version = "12.8" if world.fault("nvcc") == "other" else "13.2"
    said.say(f"Cuda compilation tools, release {version}, V{version}.78")
    return 0


def cuobjdump(world, words, said):
    arch = "sm_80" if world.fault("compiled") == "other-arch" else "sm_75"
    said.say(f"ELF file    1: {Path(words[-1]).stem}.1.{arch}.cubin")
    return 0


def uname(world, words, said):
    said.say("x86_64" if world.fault("machine") == "x86" else "aarch64")
    return 0


def git(world, words, said):
    folder = Path(words[1]) if words[0] == "-C" else Path(words[-1])
    verb = words[2] if words[0] == "-C" else words[0]
    fault = world.fault("git")
    if verb == "fetch":
        world.hold("source")
        if fault == "unreachable" or (fault == "unreachable-once" and world.count("git") < 1):
            said.error(f"fatal: unable to access '{words[-2]}/': Could not resolve host: github.com")
            return 128
        if fault == "no-commit":
            said.error(f"fatal: remote error: upload-pack: not our ref {words[-1]}")
            return 128
        (folder / "fetched").write_text(words[-1])
    if verb == "checkout":
        for name in ("tools/use_existing_torch.py", "requirements/build/cuda.txt"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("")
        if fault == "old-release":
            (folder / "tools/use_existing_torch.py").unlink()
        (folder / "rust-toolchain.toml").write_text('[toolchain]\nchannel = "1.95"\n')
    if verb == "rev-parse":
        said.say("f" * 40 if fault == "other-commit" else (folder / "fetched").read_text())
    return 0


def python(world, words, said):
    """The image's Python, and a build's own."""
    if words[0] == "-c":
        return loads(world, said) if "vllm" in words[1] else torch(world, said)
    if words[:2] == ["-m", "venv"]:
        place = Path(words[-1])
        client(world, place / "bin" / "python")
        (place / "lib/python3.12/site-packages").mkdir(parents=True)
        (world.folder / "venv").write_text(str(place))
        return 0
    if words[:3] == ["-m", "pip", "wheel"]:
        return wheel(world, words, said)
    if words[:3] == ["-m", "pip", "install"] and words[-1].endswith(".whl"):
        return install(world)
    return 0


def torch(world, said):
    wrong = {
        "cpu": {"cuda": "", "arch_list": []},
        "no-sm75": {"arch_list": ["sm_80", "sm_90"]},
        "newer": {"torch": "2.13.0+cu132"},
        "newer-cuda": {"cuda": "13.3"},
        "newer-python": {"python": "3.13"},
    }
    fault = world.fault("torch")
    if fault == "broken":
        said.error("ModuleNotFoundError: No module named 'torch'")
        return 1
    said.say(json.dumps({**TORCH, "site": SITE, **wrong.get(fault, {})}))
    return 0


def wheel(world, words, said):
    """The hour."""
    world.hold("wheel")
    fault = world.fault("wheel")
    if fault == "killed" or (fault == "killed-once" and world.count("wheel") < 1):
        said.error("[12/345] Building CUDA object csrc/x.cu.o")
        said.error("Killed")
        return 1
    if fault == "error":
        said.error('csrc/x.cu(12): error: identifier "x" is undefined')
        return 1
    said.say("[345/345] Linking CXX shared module _C.abi3.so")
    dist = Path(words[words.index("-w") + 1])
    dist.mkdir(parents=True)
    (dist / "vllm-0.27.2rc0-cp312-cp312-linux_aarch64.whl").touch()
    return 0


def install(world):
    venv = Path((world.folder / "venv").read_text())
    package = venv / "lib/python3.12/site-packages/vllm"
    kernel = package / (world.folder / "kernel-place").read_text()
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text((world.folder / "kernel").read_text())
    (package / "_C.abi3.so").touch()
    (venv / "bin/vllm").write_text("#!/bin/sh\n")
    return 0


def loads(world, said):
    venv = Path((world.folder / "venv").read_text())
    if world.fault("compiled") == "broken":
        said.error("ImportError: libcudart.so.13: cannot open shared object file: No such file or directory")
        return 1
    version = "2.14.0+cpu" if world.fault("compiled") == "other-torch" else TORCH["torch"]
    compiled = [str(venv / "lib/python3.12/site-packages/vllm/_C.abi3.so")]
    said.say("INFO a line of vLLM's own\n" + json.dumps({"torch": version, "vllm": "0.27.2rc0", "compiled": compiled}))
    return 0
